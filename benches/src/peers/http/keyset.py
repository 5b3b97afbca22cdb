"""A page of flights after a flight, as one writes it by hand with FastAPI and the sqlite3 of Python."""

import os
import sqlite3

from fastapi import FastAPI

COLUMNS = (
    "year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay, carrier, flight, "
    "tailnum, origin, dest, air_time, distance, hour, minute, time_hour"
)
FIRST = f"SELECT {COLUMNS} FROM flights WHERE carrier = ? ORDER BY time_hour DESC, flight LIMIT ?"
NEXT = (
    f"SELECT {COLUMNS} FROM flights WHERE carrier = ? AND time_hour <= ? AND (time_hour < ? OR flight > ?) "
    "ORDER BY time_hour DESC, flight LIMIT ?"
)

app = FastAPI()
connection = sqlite3.connect(f"file:{os.environ['FLIGHTS']}?mode=ro", uri=True, check_same_thread=False)
connection.row_factory = sqlite3.Row
connection.execute(f"PRAGMA cache_size = -{1 << 20}")


@app.get("/flights")
async def flights(carrier: str, page_size: int = 20, after: str | None = None):
    if after is None:
        found = connection.execute(FIRST, (carrier, page_size + 1))
    else:
        moment, flight = map(int, after.split(","))
        found = connection.execute(NEXT, (carrier, moment, moment, flight, page_size + 1))
    rows = [dict(row) for row in found]
    more = len(rows) > page_size
    rows = rows[:page_size]
    return {"records": rows, "next": f"{rows[-1]['time_hour']},{rows[-1]['flight']}" if more else ""}

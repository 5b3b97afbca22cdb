"""What a server of Recto says is wrong, for both clients."""

import httpx


class Problem(Exception):
    """What the server says is wrong (RFC 9457)."""

    def __init__(self, problem: dict):
        super().__init__(problem["detail"])
        self.kind = problem["type"].removeprefix("urn:recto:problem:")
        self.status = problem["status"]
        self.parameter = problem.get("parameter")
        self.position = problem.get("position")
        self.field = problem.get("field")
        self.hint = problem.get("hint")


def checked(response: httpx.Response) -> httpx.Response:
    """The response; what the server says is wrong is raised."""
    if response.headers.get("Content-Type") == "application/problem+json":
        raise Problem(response.json())
    return response.raise_for_status()

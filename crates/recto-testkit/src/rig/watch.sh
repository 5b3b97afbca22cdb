# Ends the Cassandra nodes and the container that a test rig started and did not end. POSIX sh.
#   owner DIR                    Ends them at the end of standard input: the process that owns the
#                                cluster has ended.
#   idle  DIR TOKEN LIMIT TICK   Ends them when no process has locked DIR/users.lock for LIMIT
#                                seconds, and checks the lock every TICK seconds. Stops watching
#                                when DIR/idle no longer contains TOKEN: the node was stopped, or
#                                must stay.
when=$1
dir=$2

# Kill a process only if its command line names this folder, because its id may belong to another
# process by now.
end() {
  for file in "$dir"/node*/pid; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    tr '\0' '\n' < "/proc/$pid/cmdline" | grep -qxF -e "-Dcassandra.storagedir=${file%/pid}" && kill -9 "$pid"
  done
  if [ -e "$dir/container" ]; then
    { read -r engine; read -r id; } < "$dir/container"
    "$engine" rm -f -v "$id"
    rm -f "$dir/container"
  fi
}

case $when in
  owner)
    cat > /dev/null
    end
    ;;
  idle)
    token=$3 limit=$4 tick=$5 idle=0 used=
    while [ "$(cat "$dir/idle")" = "$token" ]; do
      sleep "$tick"
      exec 9>> "$dir/users.lock"
      if flock -n 9; then
        idle=$((idle + tick))
        now=$(cat "$dir/used")
        [ "$now" = "$used" ] || idle=0
        used=$now
        if [ "$idle" -ge "$limit" ] && [ "$(cat "$dir/idle")" = "$token" ]; then
          end
          rm -f "$dir/state" "$dir/idle"
          exit
        fi
        flock -u 9
      else
        idle=0
      fi
    done
    ;;
esac

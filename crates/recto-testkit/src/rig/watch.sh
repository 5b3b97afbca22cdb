# Ends what recto's test rig started and nobody ended. POSIX sh; $1 says when, $2 is the rig's folder.
#   owner DIR               at end of standard input, that is, when the process that owns the cluster is gone
#   idle  DIR TOKEN LIMIT TICK   when no process has held DIR/users.lock for LIMIT seconds; looks every TICK seconds.
#                           Gives up when DIR/idle no longer holds TOKEN: the node was stopped, or shall stay.
when=$1
dir=$2

# Kills only a process whose command line names this very folder: a pid alone may have been given to another.
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

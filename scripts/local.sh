# shellcheck shell=bash
# Test servers as processes of this machine. The other kind is in docker.sh; scripts/servers runs either.
#
# Both kinds define, for kafka and postgres: start_X, which begins to start the server; X_alive, which says whether
# it may still get ready; X_ready, which says whether it is; and stop_servers. They use the variables run, the
# folder of this run, and kafka_port and postgres_port, and set kafka_address and postgres_url. The log
# of X is X.log in the folder of the run.
# It is sourced after lib.sh, never run.
#
# The variables are those of the script that sources this file:
# shellcheck disable=SC2034,SC2154

kafka_pid=""
postgres_pid=""

# start_timeout is how long the servers may take to start, in seconds. A busy machine is slow.
start_timeout=180

# cluster_id is the identity of every Kafka cluster here.
cluster_id=MkU3OEVBNTcwNTJENDM2Qg

# kafka_server_options is for options of the server's JVM alone.
kafka_server_options=()

# free_port prints a port of 127.0.0.1 that nothing listens on. It is below the range that the kernel takes ports
# for outgoing connections from, and drawn at random so that two runs hardly meet; if they do, one of them fails
# to listen and is started again on another.
free_port() {
  local port
  while :; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % 22000))
    listens "$port" || break
  done
  printf '%s\n' "$port"
}

# listens says whether something accepts connections on a port of 127.0.0.1.
listens() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

random_password() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# start_kafka formats a data folder and starts the server on it.
start_kafka() {
  local java archive controller_port
  java=$(find_java)
  archive=$(class_archive "$java")
  controller_port=$(free_port)
  while ((controller_port == kafka_port)); do controller_port=$(free_port); done
  # Native libraries are unpacked there, and stay when the server is killed.
  kafka_jvm+=(-Djava.io.tmpdir="$run/kafka")
  if [[ -f $archive ]]; then
    kafka_jvm+=(-XX:SharedArchiveFile="$archive" -Xshare:auto)
  fi
  mkdir -p "$run/kafka"
  {
    cat "$repo/scripts/kafka/server.properties"
    echo "listeners=CLIENT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$controller_port"
    echo "advertised.listeners=CLIENT://127.0.0.1:$kafka_port"
    echo "controller.quorum.voters=1@127.0.0.1:$controller_port"
    echo "log.dirs=$run/kafka/data"
  } >"$run/kafka/server.properties"
  {
    "$java" "${kafka_jvm[@]}" -cp "$kafka_home/libs/*" kafka.tools.StorageTool \
      format -t "$cluster_id" -c "$run/kafka/server.properties" &&
      exec setpriv --pdeathsig KILL "$java" "${kafka_jvm[@]}" "${kafka_server_options[@]}" \
        -cp "$kafka_home/libs/*" kafka.Kafka "$run/kafka/server.properties"
  } </dev/null >"$run/kafka.log" 2>&1 &
  kafka_pid=$!
  kafka_address=127.0.0.1:$kafka_port
}

kafka_alive() {
  kill -0 "$kafka_pid" 2>/dev/null
}

# kafka_ready holds when the broker has been let into its cluster, and listens.
kafka_ready() {
  grep -q 'Kafka Server started' "$run/kafka.log" && listens "$kafka_port"
}

# start_postgres makes a database cluster and starts the server on it. Postgres refuses to run as root: then it
# runs as the user postgres, or as nobody where that is absent.
start_postgres() {
  local bin user="" password
  local -a as=(setpriv --pdeathsig KILL)
  bin=$(find_postgres)
  password=$(random_password)
  mkdir -p "$run/postgres"
  (umask 077 && printf '%s' "$password" >"$run/postgres/password")
  if ((EUID == 0)); then
    user=$(getent passwd postgres nobody | head -n 1 | cut -d : -f 1)
    as+=(--reuid "$user" --regid "$(id -g "$user")" --init-groups)
    chown "$user" "$run/postgres" "$run/postgres/password"
    # The repository may be in a folder that only root can enter.
    if [[ $bin == "$postgres_home/bin" ]]; then
      cp -R "$postgres_home" "$run/postgres-binaries"
      bin=$run/postgres-binaries/bin
    fi
  fi
  {
    cd "$run/postgres" &&
      "${as[@]}" "$bin/initdb" --pgdata="$run/postgres/data" --username=chronos --encoding=UTF8 --locale=C \
        --auth=scram-sha-256 --pwfile="$run/postgres/password" --no-sync &&
      exec "${as[@]}" "$bin/postgres" -D "$run/postgres/data" -c listen_addresses=127.0.0.1 \
        -c port="$postgres_port" -c unix_socket_directories=""
  } </dev/null >"$run/postgres.log" 2>&1 &
  postgres_pid=$!
  postgres_url="postgres://chronos:$password@127.0.0.1:$postgres_port/postgres?sslmode=disable"
}

postgres_alive() {
  kill -0 "$postgres_pid" 2>/dev/null
}

# postgres_ready reads what the server itself writes for pg_ctl, and sees whether it listens.
postgres_ready() {
  [[ $(sed -n 8p "$run/postgres/data/postmaster.pid" 2>/dev/null) == ready* ]] && listens "$postgres_port"
}

# stop_servers stops what runs, at once: nothing that they hold is of use any more. The database server gets
# the chance to end the processes that it has started.
stop_servers() {
  local i
  [[ -z $postgres_pid ]] || kill -QUIT -- "-$postgres_pid" 2>/dev/null || true
  [[ -z $kafka_pid ]] || kill -KILL -- "-$kafka_pid" 2>/dev/null || true
  for ((i = 0; i < 50; i++)); do
    if [[ -z $postgres_pid ]] || ! postgres_alive; then break; fi
    sleep 0.1
  done
  [[ -z $postgres_pid ]] || kill -KILL -- "-$postgres_pid" 2>/dev/null || true
  wait 2>/dev/null
  kafka_pid="" postgres_pid=""
}

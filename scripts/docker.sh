# shellcheck shell=bash
# Test servers as containers, for machines on which local.sh has no chance; it says what both kinds define.
# It is sourced after lib.sh and local.sh, never run.
#
# docker run stays in front of each container: it writes the container's log, and ends with it.
#
# The variables are those of the script that sources this file:
# shellcheck disable=SC2034,SC2154

# The images may have to be fetched first.
start_timeout=900

# container begins to run one; the arguments are its name and those of docker run.
container() {
  local name=$1
  shift
  docker run --rm --name "$name" --label chronos-test "$@" </dev/null >"$run/${name##*-}.log" 2>&1 &
}

# start_kafka hands the settings to the image in its way: the key a.b as the variable KAFKA_A_B. The server
# listens on the same port inside and outside, since it connects to the address that it advertises itself.
start_kafka() {
  local key value
  local -a settings=()
  while IFS='=' read -r key value; do
    [[ -n $key && $key != \#* ]] || continue
    key=${key//./_}
    settings+=(-e "KAFKA_${key^^}=$value")
  done < <(
    cat "$repo/scripts/kafka/server.properties"
    echo "listeners=CLIENT://:$kafka_port,CONTROLLER://127.0.0.1:9093"
    echo "advertised.listeners=CLIENT://127.0.0.1:$kafka_port"
    echo "controller.quorum.voters=1@127.0.0.1:9093"
  )
  container "$(container_name kafka)" -p "127.0.0.1:$kafka_port:$kafka_port" \
    -e CLUSTER_ID="$cluster_id" -e KAFKA_HEAP_OPTS="-Xms128m -Xmx512m" "${settings[@]}" \
    "${CHRONOS_TEST_KAFKA_IMAGE:-apache/kafka:$kafka_version}"
  kafka_pid=$!
  kafka_address=127.0.0.1:$kafka_port
}

kafka_ready() {
  grep -q 'Kafka Server started' "$run/kafka.log" && listens "$kafka_port"
}

start_postgres() {
  local password
  password=$(random_password)
  POSTGRES_PASSWORD=$password container "$(container_name postgres)" -p "127.0.0.1:$postgres_port:5432" \
    -e POSTGRES_USER=chronos -e POSTGRES_PASSWORD -e POSTGRES_DB=postgres \
    "${CHRONOS_TEST_POSTGRES_IMAGE:-postgres:17}"
  postgres_pid=$!
  postgres_url="postgres://chronos:$password@127.0.0.1:$postgres_port/postgres?sslmode=disable"
}

# postgres_ready asks inside: outside, the engine accepts connections before the server does, and while the image
# still prepares the database, the server listens on its socket only.
postgres_ready() {
  docker exec "$(container_name postgres)" pg_isready -q -h 127.0.0.1 -U chronos >/dev/null 2>&1
}

# container_name names a container after the folder of the run, which is like no other.
container_name() {
  printf '%s-%s\n' "${run##*/}" "$1"
}

stop_servers() {
  local server
  for server in kafka postgres; do
    docker rm --force --volumes "$(container_name "$server")" >/dev/null 2>&1 || true
  done
  [[ -z $kafka_pid ]] || kill -KILL -- "-$kafka_pid" 2>/dev/null || true
  [[ -z $postgres_pid ]] || kill -KILL -- "-$postgres_pid" 2>/dev/null || true
  wait 2>/dev/null
  kafka_pid="" postgres_pid=""
}

# shellcheck shell=bash
# What the scripts beside this file share: versions, places, how to talk, how to find what is installed.
# It is sourced, never run.

set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$repo/.cache

# The oldest versions that serve, and the ones that are fetched.
java_oldest=17
postgres_oldest=14
kafka_version=$(sed -n 's:.*<kafka\.version>\(.*\)</kafka\.version>.*:\1:p' "$repo/scripts/kafka/pom.xml")

kafka_home=$cache/kafka-$kafka_version
postgres_home=$cache/postgres

# say prints one line for the person who started the script.
say() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# die says why nothing more can be done, and ends the script.
die() {
  say "$*"
  exit 1
}

# find_java prints the path of a Java runtime that is new enough.
find_java() {
  local java major
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
    [[ -x $java ]] || continue
    major=$("$java" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
    if ((${major:-0} >= java_oldest)); then
      printf '%s\n' "$java"
      return
    fi
  done
  return 1
}

# find_postgres prints the folder with the newest Postgres server binaries: those of the system, or the
# ones that setup has unpacked.
find_postgres() {
  local bin best="" best_major=$((postgres_oldest - 1)) major
  for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
    "$(dirname "$(readlink -f "$(command -v postgres || echo /none/postgres)")")" "$postgres_home/bin"; do
    [[ -x $bin/postgres && -x $bin/initdb ]] || continue
    major=$("$bin/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    if ((major > best_major)); then
      best=$bin best_major=$major
    fi
  done
  [[ -n $best ]] && printf '%s\n' "$best"
}

# class_archive prints the file of the class archive for a Java runtime. An archive serves only the very
# runtime, and the very place of the jars, that it was made with.
class_archive() {
  local java=$1
  printf '%s/classes-%s.jsa\n' "$kafka_home" \
    "$({ "$java" -version 2>&1; printf '%s' "$kafka_home"; } | cksum | cut -d ' ' -f 1)"
}

# kafka_jvm is the options of a Kafka JVM. That of tests is small and starts fast. With CHRONOS_TEST_KAFKA_JVM=shipped, for
# benchmarks, it has the memory, the garbage collector and the compiler that Kafka's own scripts give it.
if [[ ${CHRONOS_TEST_KAFKA_JVM:-} == shipped ]]; then
  kafka_jvm=(
    -server -Xms1G -Xmx1G -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35
    -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true
  )
else
  kafka_jvm=(-Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData)
fi
kafka_jvm+=(
  -Xlog:disable -Xlog:all=error:stderr -Djava.net.preferIPv4Stack=true -Dlog4j2.level=OFF
  -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
  -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info
)

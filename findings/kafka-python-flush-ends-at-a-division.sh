#!/usr/bin/env bash
# kafka-python 3.0.12 with Apache Kafka 4.3.1 (kafka_2.13 of Maven Central, one node).
#
# A KafkaProducer has a batch of 600 small messages for a topic whose max.message.bytes the batch exceeds, no message alone.
# The broker refuses it with MESSAGE_TOO_LARGE, and the producer divides it until its parts fit, as Java's does. The batch
# is sent by flush() itself, because linger_ms is long (and on a slow machine with a short one, too).
#
# Expected: flush() returns once the parts are acknowledged, as its documentation says of all records sent before.
# What happens: flush() raises UnknownError ("Future not done") at the first division. Dividing sets the event of the old
# batch to wake those that wait for one of its records, and flush(), which waits for the same event, finds the batch
# neither done nor failed. Nothing has failed: the parts wait for linger_ms again, and flush() called once more, or a few
# times, returns with all of them acknowledged. A caller that takes the error for a failure and sends again, or aborts its
# transaction and repeats it, meets the same error each time.
#
# Needs Java 17 and mvn; everything else is fetched into a temporary folder. The broker listens on 127.0.0.1.
# Exit code 0: as described. 1: the behaviour has changed.
set -euo pipefail
work=$(mktemp -d)
broker=
cleanup() {
  if [ -n "$broker" ]; then
    kill -9 "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

cat >pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dmaven.repo.local="$work/m2" dependency:copy-dependencies -DoutputDirectory="$work/lib" -DincludeScope=runtime
python3 -m venv venv
venv/bin/pip -q install kafka-python==3.0.12

read -r port controller < <(venv/bin/python - <<'PY'
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in held))
PY
)
cat >server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$work/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
PROPERTIES
java -cp "lib/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ -c server.properties >format.log 2>&1
java -Xmx400m -cp "lib/*" kafka.Kafka server.properties >broker.log 2>&1 &
broker=$!

cat >producer.py <<'PY'
import sys
import time

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, UnknownError

MESSAGES = 600


def patiently(call):
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


admin = patiently(lambda: KafkaAdminClient(bootstrap_servers=sys.argv[1]))
settings = {"num_partitions": 1, "replication_factor": 1, "configs": {"max.message.bytes": "3000"}}
patiently(lambda: admin.create_topics({"orders": settings}))
time.sleep(2)
producer = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=60_000, batch_size=1 << 18, delivery_timeout_ms=120_000)
sent = [producer.send("orders", b"%d" % number, partition=0) for number in range(MESSAGES)]
errors = 0
deadline = time.monotonic() + 60
while True:
    try:
        producer.flush()
        break
    except UnknownError as error:
        errors += 1
        if errors == 1:
            print("flush() of a batch that has to be divided raises", error)
        if time.monotonic() > deadline:
            raise
        time.sleep(0.05)
offsets = [one.get(timeout=60).offset for one in sent]
print("calls of flush() that raised before one returned:", errors > 0)
print("acknowledged records:", len(offsets), "offsets in order:", offsets == list(range(MESSAGES)))
sys.exit(0 if errors and len(offsets) == MESSAGES else 1)
PY
timeout 240 venv/bin/python producer.py "127.0.0.1:$port"

#!/usr/bin/env bash
# kafka-python 3.0.12 with Apache Kafka 4.3.1 (kafka_2.13 of Maven Central, one node).
#
# A KafkaConsumer in a group finds that its topic has got more partitions, and joins the group again. The broker answers
# as soon as the other member has joined or left. poll(100) returns before that, as documented for a short timeout.
#
# Expected: a later poll takes up the join, and the consumer reads the partitions that the group has assigned to it.
# What happens: if the answer arrives between two polls, the join ends in the background, as KafkaConsumer keeps it for
# the next poll; but the next poll no longer sees a reason to join (the leader of the group recorded the new number of
# partitions meanwhile), so it never looks at the result. The consumer keeps its old assignment and sends no more
# heartbeats, the broker counts it as the owner of all partitions until its session ends, and nobody reads the new ones.
# A poll that waits for the whole join is not affected.
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

cat >member.py <<'PY'
import sys
import threading
import time

from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError


def connect(deadline):
    while True:
        try:
            return KafkaAdminClient(bootstrap_servers=sys.argv[1])
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def create(admin, deadline):
    while True:
        try:
            return admin.create_topics({"orders": {"num_partitions": 2, "replication_factor": 1}})
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def member():
    return KafkaConsumer("orders", bootstrap_servers=sys.argv[1], group_id="readers", metadata_max_age_ms=200)


def partitions(consumer):
    return sorted(one.partition for one in consumer.assignment())


def poll_until(consumer, wanted, seconds, timeout_ms):
    deadline = time.monotonic() + seconds
    while not wanted() and time.monotonic() < deadline:
        consumer.poll(timeout_ms)
    return wanted()


admin = connect(time.monotonic() + 60)
create(admin, time.monotonic() + 60)
first, second = member(), member()
assert poll_until(first, lambda: len(partitions(first)) == 2, 60, 2000)
joining = threading.Thread(target=lambda: poll_until(second, lambda: partitions(second), 60, 2000))
joining.start()
assert poll_until(first, lambda: len(partitions(first)) == 1, 60, 2000)
joining.join()
print("two members:", partitions(first), partitions(second))

admin.create_partitions({"orders": 4})
joins = lambda: "orders" in first.topics() and first.partitions_for_topic("orders") == {0, 1, 2, 3}
assert poll_until(first, joins, 60, 100)
for _ in range(10):  # the first member joins again; the second one does not poll, so the broker does not answer yet
    first.poll(100)
second.close()  # now it does
time.sleep(2)  # the first member works on what it has read
poll_until(first, lambda: len(partitions(first)) == 4, 20, 100)
held = partitions(first)
print("after 20 s of polls the only member has:", held)
group = next(iter(admin.describe_groups(["readers"]).values()))
members = group["members"] if isinstance(group, dict) else group.members
print("the broker counts members:", len(members))

control = KafkaConsumer("orders", bootstrap_servers=sys.argv[1], group_id="others")
control.poll(10_000)
print("a member whose poll waits for the join has:", partitions(control))
sys.exit(0 if len(held) == 1 and len(partitions(control)) == 4 else 1)
PY
timeout 240 venv/bin/python member.py "127.0.0.1:$port"

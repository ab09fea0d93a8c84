#!/usr/bin/env bash
# Apache RocketMQ, Java client and broker 5.5.0 (rocketmq-client, rocketmq-broker, rocketmq-namesrv of Maven Central).
#
# A DefaultMQPushConsumer of a new group, broadcasting, with CONSUME_FROM_LAST_OFFSET: its start() returns, and then another
# client sends a message.
#
# Expected: the consumer gets it, because it was sent after the start.
# What happens: start() returns before the rebalance has asked the broker for the end of the queue (request 30), which the
# consumer begins at. If that request comes after the message, the consumer never gets it. Its own RPC hook delays the
# request by three seconds here; without a hook it is a matter of milliseconds. A message that is sent later is consumed.
# By its source, and in the tests of 5.3.3 from time to time, 5.3.3 does the same. Wait until the client owns its queues.
#
# Needs Java 17, javac and mvn; everything else is fetched into a temporary folder. The servers listen on 127.0.0.1.
# Exit code 0: as described. 1: the behaviour has changed.
set -euo pipefail
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

cat >pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-broker</artifactId><version>5.5.0</version></dependency>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-namesrv</artifactId><version>5.5.0</version></dependency>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-client</artifactId><version>5.5.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dmaven.repo.local="$work/m2" dependency:copy-dependencies -DoutputDirectory="$work/lib" -DincludeScope=runtime

cat >Begin.java <<'JAVA'
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

public class Begin {
    private static final RPCHook LATE = new RPCHook() {
        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
            if (request.getCode() == RequestCode.GET_MAX_OFFSET) {
                pause(3_000);
            }
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        }
    };

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("senders");
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("sends");
        producer.setDefaultTopicQueueNums(1);
        producer.start();
        producer.send(new Message("news", "before".getBytes()));
        List<String> found = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("readers", LATE);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("reads");
        consumer.setMessageModel(MessageModel.BROADCASTING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe("news", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                found.add(new String(one.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(new Message("news", "after start".getBytes()));
        pause(15_000);
        producer.send(new Message("news", "later".getBytes()));
        pause(10_000);
        System.out.println("consumed " + found);
        System.exit(0);
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
JAVA
javac -nowarn -cp "lib/*" Begin.java

free() { python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"; }
names=$(free)
port=$(free)
printf 'listenPort=%s\nbindAddress=127.0.0.1\n' "$names" >names.conf
cat >broker.conf <<CONF
brokerClusterName=finding
brokerName=finding
brokerId=0
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
namesrvAddr=127.0.0.1:$names
listenPort=$port
haListenPort=$(free)
storePathRootDir=$work/store
storePathCommitLog=$work/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=120000
mappedFileSizeTimerLog=1048576
maxHashSlotNum=1000
maxIndexNum=4000
diskMaxUsedSpaceRatio=98
CONF
start() {
  java -Xms128m -Xmx512m -XX:MaxDirectMemorySize=256m -Duser.home="$work" -Drocketmq.home.dir="$work" \
    --add-exports=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/jdk.internal.ref=ALL-UNNAMED \
    -cp "lib/*" "org.apache.rocketmq.$1" -c "$2" >"$2.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 120); do
    grep -q "boot success" "$2.log" && return
    sleep 0.5
  done
  cat "$2.log"
  exit 2
}
start namesrv.NamesrvStartup names.conf
start broker.BrokerStartup broker.conf

java -Duser.home="$work" -cp "lib/*:." Begin "127.0.0.1:$names" 2>errors | tee seen | grep "^consumed" || cat errors
if grep -qx "consumed \[later\]" seen; then
  echo "as described: the message that was sent after start() was not consumed"
else
  echo "changed: see the line above"
  exit 1
fi

#!/usr/bin/env bash
# Apache RocketMQ, Java client and broker 5.5.0 (rocketmq-client, rocketmq-broker, rocketmq-namesrv of Maven Central).
#
# DefaultMQProducer.request(message, callback, timeout) sends a request whose reply another client sends back.
#
# Expected: RequestCallback.onSuccess runs once, with the reply.
# What happens: onSuccess runs as soon as the broker has stored the request, with null instead of a message, and once more
# with the reply. The variant with a queue selector, request(message, selector, arg, callback, timeout), runs it once. An
# application that reads the first argument fails before any reply exists, and one that counts answers counts two.
# By its source 5.3.3 does the same, and its synchronous request() ends at that moment as well, as if it had timed out.
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

cat >Ask.java <<'JAVA'
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Ask {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer replies = new DefaultMQProducer("repliers");
        replies.setNamesrvAddr(args[0]);
        replies.setInstanceName("replies");
        replies.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("answering");
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("answering");
        consumer.subscribe("questions", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                try {
                    Thread.sleep(500);
                    replies.send(MessageUtil.createReplyMessage(one, "the reply".getBytes()));
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer asking = new DefaultMQProducer("askers");
        asking.setNamesrvAddr(args[0]);
        asking.setInstanceName("asking");
        asking.start();
        asking.send(new Message("questions", "the topic is made".getBytes()));
        consumer.start();
        Thread.sleep(15_000);
        System.out.println("plain " + answers(callback -> asking.request(question(), callback, 10_000)));
        System.out.println("selector " + answers(callback -> asking.request(
            question(), (queues, message, argument) -> queues.get(0), null, callback, 10_000)));
        System.exit(0);
    }

    private interface Request {
        void send(RequestCallback callback) throws Exception;
    }

    private static Message question() {
        return new Message("questions", "a question".getBytes());
    }

    private static List<String> answers(Request request) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        request.send(new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                found.add(message == null ? "null" : new String(message.getBody()));
            }

            @Override
            public void onException(Throwable error) {
                found.add(error.toString());
            }
        });
        Thread.sleep(6_000);
        return found;
    }
}
JAVA
javac -nowarn -cp "lib/*" Ask.java

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

java -Duser.home="$work" -cp "lib/*:." Ask "127.0.0.1:$names" 2>errors | tee seen | grep -E "^(plain|selector)" || cat errors
if grep -qx "plain \[null, the reply\]" seen && grep -qx "selector \[the reply\]" seen; then
  echo "as described: the plain request called onSuccess with null before the reply came"
else
  echo "changed: see the lines above"
  exit 1
fi

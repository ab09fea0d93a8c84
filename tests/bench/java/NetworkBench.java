import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Load of RocketMQ's own client on brokers that are named by their NameServers; one JVM loads all, so that all meet the
 * same warm client. Lines on stdin, one answer line each:
 * SEND names topic threads size batch seconds -> messages nanos p50us p99us failed
 * COMMIT names topic threads size seconds     -> messages nanos p50us p99us failed
 * FILL names topic size count                 -> messages
 * PULL names topic                            -> messages nanos
 * PUSH names topic group count                -> messages nanos
 * LATENCY names topic group rate seconds      -> messages nanos p50us p99us
 */
public class NetworkBench {
    private static final int PULL = 32;
    private static final int FILL_BATCH = 128;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "SEND": send(words[1], words[2], number(words[3]), number(words[4]), number(words[5]), number(words[6])); break;
                case "COMMIT": commit(words[1], words[2], number(words[3]), number(words[4]), number(words[5])); break;
                case "FILL": fill(words[1], words[2], number(words[3]), number(words[4])); break;
                case "PULL": pull(words[1], words[2]); break;
                case "PUSH": push(words[1], words[2], words[3], number(words[4])); break;
                case "LATENCY": latency(words[1], words[2], words[3], number(words[4]), number(words[5])); break;
                default: throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0); // whatever threads the clients left
    }

    /** The client prints lines of its own. */
    private static void answer(String text) {
        System.out.println("ANSWER " + text);
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static DefaultMQProducer producer(String names) throws Exception {
        DefaultMQProducer found = PRODUCERS.get(names);
        if (found == null) {
            found = new DefaultMQProducer("bench-producer");
            found.setNamesrvAddr(names);
            found.setInstanceName("producer@" + names.replace(':', '-'));
            found.setRetryTimesWhenSendFailed(0);
            found.start();
            PRODUCERS.put(names, found);
        }
        return found;
    }

    private static void send(String names, String topic, int threads, int size, int batch, int seconds) throws Exception {
        DefaultMQProducer producer = producer(names);
        byte[] body = bodyOf(size);
        load(threads, batch, seconds, () -> batch == 1 ? producer.send(new Message(topic, body)) : producer.send(batchOf(topic, body, batch)));
    }

    /** A half message, answered, and its commit, one-way. */
    private static void commit(String names, String topic, int threads, int size, int seconds) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("bench-transactions");
        producer.setNamesrvAddr(names);
        producer.setInstanceName("transactions@" + names.replace(':', '-'));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        byte[] body = bodyOf(size);
        load(threads, 1, seconds, () -> producer.sendMessageInTransaction(new Message(topic, body), null));
        producer.shutdown();
    }

    interface Sending {
        SendResult send() throws Exception;
    }

    private static byte[] bodyOf(int size) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        return body;
    }

    private static void load(int threads, int batch, int seconds, Sending sending) throws Exception {
        AtomicLong sent = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        AtomicBoolean running = new AtomicBoolean(true);
        List<long[]> times = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(threads);
        long began = System.nanoTime();
        for (int n = 0; n < threads; n++) {
            new Thread(() -> {
                long[] own = new long[1 << 20];
                int count = 0;
                while (running.get()) {
                    long at = System.nanoTime();
                    try {
                        SendResult result = sending.send();
                        if (result.getSendStatus() == SendStatus.SEND_OK) {
                            sent.addAndGet(batch);
                            own[count++ & (own.length - 1)] = System.nanoTime() - at;
                        } else {
                            failed.addAndGet(batch);
                        }
                    } catch (Exception error) {
                        failed.addAndGet(batch);
                    }
                }
                synchronized (times) {
                    times.add(Arrays.copyOf(own, Math.min(count, own.length)));
                }
                done.countDown();
            }).start();
        }
        Thread.sleep(seconds * 1000L);
        running.set(false);
        done.await();
        answer(sent + " " + (System.nanoTime() - began) + " " + percentiles(times) + " " + failed);
    }

    private static List<Message> batchOf(String topic, byte[] body, int size) {
        List<Message> found = new ArrayList<>(size);
        for (int n = 0; n < size; n++) {
            found.add(new Message(topic, body));
        }
        return found;
    }

    private static void fill(String names, String topic, int size, int count) throws Exception {
        DefaultMQProducer producer = producer(names);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'y');
        for (int sent = 0; sent < count; ) {
            try {
                if (producer.send(batchOf(topic, body, FILL_BATCH)).getSendStatus() == SendStatus.SEND_OK) {
                    sent += FILL_BATCH;
                }
            } catch (Exception error) {
                Thread.sleep(20); // the broker asks for patience
            }
        }
        answer("" + count);
    }

    private static void pull(String names, String topic) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("bench-pull");
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("pull@" + names.replace(':', '-'));
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
        AtomicLong read = new AtomicLong();
        CountDownLatch done = new CountDownLatch(queues.size());
        long began = System.nanoTime();
        for (MessageQueue queue : queues) {
            new Thread(() -> {
                try {
                    long offset = 0;
                    while (true) {
                        PullResult found = consumer.pull(queue, "*", offset, PULL);
                        if (found.getPullStatus() != PullStatus.FOUND) {
                            break;
                        }
                        read.addAndGet(found.getMsgFoundList().size());
                        offset = found.getNextBeginOffset();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
                done.countDown();
            }).start();
        }
        done.await();
        answer(read + " " + (System.nanoTime() - began));
        consumer.shutdown();
    }

    private static void push(String names, String topic, String group, int count) throws Exception {
        DefaultMQPushConsumer consumer = consumer(names, topic, group);
        AtomicLong read = new AtomicLong();
        AtomicLong began = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            began.compareAndSet(0, System.nanoTime());
            if (read.addAndGet(messages.size()) >= count) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        answer(read + " " + (System.nanoTime() - began.get()));
        consumer.shutdown();
    }

    private static void latency(String names, String topic, String group, int rate, int seconds) throws Exception {
        DefaultMQProducer producer = producer(names);
        int count = rate * seconds;
        long[] times = new long[count];
        AtomicLong read = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        CountDownLatch ready = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(names, topic, group);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            messages.forEach(message -> {
                ByteBuffer body = ByteBuffer.wrap(message.getBody());
                int number = body.getInt();
                if (body.getInt(12) != group.hashCode()) {
                    return; // of an earlier round
                }
                if (number < 0) {
                    ready.countDown();
                } else {
                    times[number] = now - body.getLong();
                    if (read.incrementAndGet() == count) {
                        done.countDown();
                    }
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (ready.getCount() > 0) {
            producer.send(new Message(topic, stamped(-1, group)));
            Thread.sleep(200);
        }
        long began = System.nanoTime();
        for (int n = 0; n < count; n++) {
            long due = began + n * 1_000_000_000L / rate;
            while (System.nanoTime() < due) {
                Thread.sleep(0, 100_000);
            }
            producer.send(new Message(topic, stamped(n, group)), QUIET);
        }
        done.await();
        answer(read + " " + (System.nanoTime() - began) + " " + percentiles(List.of(times)));
        consumer.shutdown();
    }

    private static final SendCallback QUIET = new SendCallback() {
        @Override
        public void onSuccess(SendResult result) {}

        @Override
        public void onException(Throwable error) {
            error.printStackTrace(); // the count of messages that arrive stays short
        }
    };

    private static byte[] stamped(int number, String group) {
        return ByteBuffer.allocate(200).putInt(number).putLong(System.nanoTime()).putInt(group.hashCode()).array();
    }

    private static DefaultMQPushConsumer consumer(String names, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(group + "@" + names.replace(':', '-'));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static String percentiles(List<long[]> times) {
        long[] all = times.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        return all.length == 0 ? "0 0" : all[all.length / 2] / 1000 + " " + all[(int) (all.length * 0.99)] / 1000;
    }
}

import com.alibaba.fastjson.JSON;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Answers lines of stdin with RocketMQ's own rules for consumers, one line after "= " for each. Fields are separated by tabs, queues and
 * clients by commas; a queue is topic/broker/id.
 *
 * allocate STRATEGY CLIENT QUEUES CLIENTS: the client's queues, or "error"
 * subscribe EXPRESSION: the subscription as JSON, or "error"
 * sort QUEUES CLIENTS: both sorted
 * offsets TEXT: a text of offsets.json, decoded and encoded again
 */
public class ConsumerRules {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println("= " + answer(line.split("\t", -1)));
        }
        System.exit(0);
    }

    private static String answer(String[] line) throws Exception {
        switch (line[0]) {
            case "allocate":
                try {
                    return texts(strategy(line[1]).allocate("group", line[2], queues(line[3]), clients(line[4])));
                } catch (IllegalArgumentException e) {
                    return "error";
                }
            case "subscribe":
                try {
                    SubscriptionData data = FilterAPI.buildSubscriptionData("T", line[1]);
                    data.setSubVersion(1);
                    return JSON.toJSONString(data);
                } catch (Exception e) {
                    return "error";
                }
            case "sort":
                List<MessageQueue> queues = queues(line[1]);
                List<String> clients = clients(line[2]);
                java.util.Collections.sort(queues);
                java.util.Collections.sort(clients);
                return texts(queues) + "\t" + String.join(",", clients);
            default:
                OffsetSerializeWrapper read = RemotingSerializable.fromJson(JSON.parseObject(line[1], String.class), OffsetSerializeWrapper.class);
                OffsetSerializeWrapper sorted = new OffsetSerializeWrapper();
                sorted.setOffsetTable(new java.util.concurrent.ConcurrentSkipListMap<MessageQueue, AtomicLong>(read.getOffsetTable()));
                return JSON.toJSONString(sorted.toJson(true));
        }
    }

    private static AllocateMessageQueueStrategy strategy(String text) {
        String[] parts = text.split(":", 2);
        switch (parts[0]) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONFIG":
                AllocateMessageQueueByConfig chosen = new AllocateMessageQueueByConfig();
                chosen.setMessageQueueList(queues(parts[1]));
                return chosen;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(new HashSet<>(Arrays.asList(parts[1].split(","))));
                return rooms;
            case "MACHINE_ROOM_NEARBY":
                return new AllocateMachineRoomNearby(strategy(parts[1]), new AllocateMachineRoomNearby.MachineRoomResolver() {
                    @Override
                    public String brokerDeployIn(MessageQueue queue) {
                        return queue.getBrokerName().split("@", -1)[0];
                    }

                    @Override
                    public String consumerDeployIn(String client) {
                        return client.split("@", -1)[0];
                    }
                });
            default:
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(parts[1]));
        }
    }

    private static List<MessageQueue> queues(String text) {
        List<MessageQueue> found = new ArrayList<>();
        for (String one : clients(text)) {
            String[] parts = one.split("/", -1);
            found.add(new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2])));
        }
        return found;
    }

    private static List<String> clients(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(",")));
    }

    private static String texts(List<MessageQueue> queues) {
        List<String> found = new ArrayList<>();
        for (MessageQueue one : queues) {
            found.add(one.getTopic() + "/" + one.getBrokerName() + "/" + one.getQueueId());
        }
        return String.join(",", found);
    }
}

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.auth.authorization.builder.DefaultAuthorizationContextBuilder;
import org.apache.rocketmq.auth.authorization.context.DefaultAuthorizationContext;
import org.apache.rocketmq.auth.config.AuthConfig;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.RequestHeaderRegistry;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Accounts of RocketMQ 5: writes permissions.jsonl into args[0], what each request code needs: with a value in every field of its
 * header, in the required ones, and with retry topics for topics.
 */
public class RequestPermissions {
    private static final ChannelHandlerContext CONTEXT =
        new EmbeddedChannel(new ChannelInboundHandlerAdapter()).pipeline().firstContext();
    private static final String[] OF_SENDS = {"topic", "b", "group", "a"};

    public static void main(String[] args) throws Exception {
        AuthConfig config = new AuthConfig();
        config.setClusterName("the-cluster");
        RequestHeaderRegistry.getInstance().initialize();
        DefaultAuthorizationContextBuilder builder = new DefaultAuthorizationContextBuilder(config);
        Map<Integer, String> names = new TreeMap<>();
        for (Field one : RequestCode.class.getDeclaredFields()) {
            if (Modifier.isStatic(one.getModifiers()) && one.getType() == int.class) {
                names.put(one.getInt(null), one.getName());
            }
        }
        try (PrintWriter out = new PrintWriter(args[0] + "/permissions.jsonl", "UTF-8")) {
            for (Map.Entry<Integer, String> one : names.entrySet()) {
                for (String filled : new String[] {"all", "required", "retry"}) {
                    out.print(line(builder, one.getKey(), one.getValue(), filled) + "\n");
                }
            }
        }
        System.exit(0);
    }

    private static String line(DefaultAuthorizationContextBuilder builder, int code, String name, String filled) {
        TreeMap<String, String> fields = new TreeMap<>();
        Class<? extends CommandCustomHeader> header = RequestHeaderRegistry.getInstance().getRequestHeader(code);
        for (Class<?> at = header; at != null && at != Object.class; at = at.getSuperclass()) {
            for (Field one : at.getDeclaredFields()) {
                if (!Modifier.isStatic(one.getModifiers()) && (!filled.equals("required") || one.isAnnotationPresent(CFNotNull.class))) {
                    fields.put(one.getName(), value(one));
                }
            }
        }
        if (code == RequestCode.SEND_BATCH_MESSAGE) {
            for (String one : OF_SENDS) {
                fields.put(one, "the-" + one);
            }
        }
        String topic = filled.equals("retry") ? "%RETRY%the-group" : "the-topic";
        fields.replaceAll((key, old) -> old.equals("the-topic") || old.equals("the-b") ? topic : old);
        RemotingCommand command = RemotingCommand.createRequestCommand(code, null);
        command.addExtField("AccessKey", "user");
        fields.forEach(command::addExtField);
        command.setBody(body(code, topic));
        String needs;
        try {
            TreeSet<String> found = new TreeSet<>();
            for (DefaultAuthorizationContext one : builder.build(CONTEXT, command)) {
                List<String> actions = new ArrayList<>();
                for (Action action : Action.values()) {
                    if (one.getActions().contains(action)) {
                        actions.add(quoted(action.getName()));
                    }
                }
                found.add("[" + quoted(one.getResource().getResourceKey()) + ",[" + String.join(",", actions) + "]]");
            }
            needs = "[" + String.join(",", found) + "]";
        } catch (RuntimeException error) {
            needs = "null";
        }
        List<String> members = new ArrayList<>();
        fields.forEach((key, value) -> members.add(quoted(key) + ":" + quoted(value)));
        String body = command.getBody() == null ? "" : new String(command.getBody(), StandardCharsets.UTF_8);
        return "{\"code\":" + code + ",\"name\":" + quoted(name) + ",\"filled\":" + quoted(filled) + ",\"values\":{"
            + String.join(",", members) + "},\"body\":" + quoted(body) + ",\"needs\":" + needs + "}";
    }

    private static byte[] body(int code, String topic) {
        if (code == RequestCode.HEART_BEAT) {
            HeartbeatData data = new HeartbeatData();
            data.setClientID("client");
            ProducerData producer = new ProducerData();
            producer.setGroupName("the-producers");
            data.getProducerDataSet().add(producer);
            ConsumerData consumer = new ConsumerData();
            consumer.setGroupName("the-consumers");
            SubscriptionData subscription = new SubscriptionData();
            subscription.setTopic(topic);
            subscription.setSubVersion(1);
            consumer.setSubscriptionDataSet(Collections.singleton(subscription));
            data.getConsumerDataSet().add(consumer);
            return data.encode();
        }
        if (code == RequestCode.LOCK_BATCH_MQ || code == RequestCode.UNLOCK_BATCH_MQ) {
            LockBatchRequestBody body = new LockBatchRequestBody();
            body.setConsumerGroup("the-consumers");
            body.setClientId("client");
            body.setMqSet(Collections.singleton(new MessageQueue(topic, "broker", 0)));
            return body.encode();
        }
        return null;
    }

    private static String value(Field field) {
        Class<?> type = field.getType();
        if (type == boolean.class || type == Boolean.class) {
            return "true";
        }
        if (type != String.class) {
            return "1";
        }
        return field.getName().equals("topicFilterType") ? "SINGLE_TAG" : "the-" + field.getName();
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}

import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.Validators;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Reads the rows of `tests/support/odd_inputs.py` from args[2], and writes what RocketMQ makes of each to args[0]/odd_inputs.jsonl. */
public class OddInputs {
    private static final int LONG = 1000;

    public static void main(String[] args) throws Exception {
        try (PrintWriter out = new PrintWriter(args[0] + "/odd_inputs.jsonl", "UTF-8")) {
            for (String line : Files.readAllLines(Paths.get(args[2]), StandardCharsets.UTF_8)) {
                String[] fields = line.split("\t", -1);
                CRC32 crc = new CRC32();
                crc.update(line.getBytes(StandardCharsets.UTF_8));
                Map<String, Object> answer = new LinkedHashMap<>();
                answer.put("kind", fields[0]);
                answer.put("name", fields[1]);
                answer.put("input", crc.getValue());
                try {
                    answer.put("result", answer(fields[0], Arrays.copyOfRange(fields, 2, fields.length)));
                } catch (Exception error) {
                    answer.put("refused", error.getClass().getSimpleName());
                }
                out.print(json(answer) + "\n");
            }
        }
        System.exit(0);
    }

    private static Object answer(String kind, String[] fields) throws Exception {
        switch (kind) {
            case "body":
                return body(bytes(fields[0]), (int) number(fields[1]));
            case "properties":
                return shown(MessageDecoder.string2messageProperties(new String(bytes(fields[0]), StandardCharsets.UTF_8)));
            case "written properties":
                return written(fields);
            case "name":
                return name(text(fields[0]));
            case "id":
                MessageId id = MessageDecoder.decodeMessageId(text(fields[0]));
                return Arrays.asList(address((InetSocketAddress) id.getAddress()), ((InetSocketAddress) id.getAddress()).getPort(), id.getOffset());
            case "written id":
                return MessageDecoder.createMessageId(
                    new InetSocketAddress(InetAddress.getByAddress(bytes(fields[0])), (int) number(fields[1])), number(fields[2]));
            case "hash":
                return text(fields[0]).hashCode();
            case "records":
                return records(ByteBuffer.wrap(bytes(fields[0])));
            case "batch":
                List<Object> entries = new ArrayList<>();
                for (Message one : MessageDecoder.decodeMessages(ByteBuffer.wrap(bytes(fields[0])))) {
                    entries.add(Arrays.asList(one.getFlag(), shown(one.getBody()), shown(one.getProperties())));
                }
                return entries;
            default:
                throw new IllegalStateException(kind);
        }
    }

    /** A body as the decoder of records leaves it; its exception, which the decoder hides, if there is one. */
    private static Object body(byte[] stored, int sysFlag) throws Exception {
        ByteBuffer record = ByteBuffer.allocate(91 + stored.length);
        record.putInt(record.capacity()).putInt(MessageDecoder.MESSAGE_MAGIC_CODE).position(36);
        record.putInt(sysFlag).position(84);
        record.putInt(stored.length).put(stored).position(0);
        MessageExt message = MessageDecoder.decode(record);
        if (message == null) {
            CompressorFactory.getCompressor(MessageSysFlag.getCompressionType(sysFlag)).decompress(stored);
            throw new IllegalStateException("the decompressed body is dropped");
        }
        return shown(message.getBody() == null ? new byte[0] : message.getBody());
    }

    /** The bytes of a property string, what Message.putUserProperty refuses, and whether a store takes the message. */
    private static Object written(String[] fields) throws Exception {
        Map<String, String> properties = new LinkedHashMap<>();
        String refused = null;
        for (int i = 0; i + 1 < fields.length; i += 2) {
            properties.put(text(fields[i]), text(fields[i + 1]));
            try {
                new Message("TopicA", new byte[1]).putUserProperty(text(fields[i]), text(fields[i + 1]));
            } catch (RuntimeException error) {
                refused = error.getClass().getSimpleName();
            }
        }
        String text = MessageDecoder.messageProperties2String(properties);
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("bytes", shown(text.getBytes(StandardCharsets.UTF_8)));
        found.put("user", refused);
        found.put("stored", stored(text));
        return found;
    }

    /** The status that the encoder of a store gives a message with these properties. */
    private static String stored(String properties) throws Exception {
        Class<?> type;
        try {
            type = Class.forName("org.apache.rocketmq.store.MessageExtEncoder");
        } catch (ClassNotFoundException error) {
            type = Class.forName("org.apache.rocketmq.store.CommitLog$MessageExtEncoder");
        }
        Object encoder = null;
        for (Constructor<?> one : type.getDeclaredConstructors()) {
            one.setAccessible(true);
            if (one.getParameterCount() == 1) {
                encoder = one.newInstance(one.getParameterTypes()[0] == int.class ? (Object) 4096 : new MessageStoreConfig());
            }
        }
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("TopicA");
        message.setBody(new byte[1]);
        message.setBornHost(new InetSocketAddress("127.0.0.1", 1));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 1));
        message.setPropertiesString(properties);
        Method encode = type.getDeclaredMethod("encode", MessageExtBrokerInner.class);
        encode.setAccessible(true);
        Object result = encode.invoke(encoder, message);
        return result == null ? "PUT_OK" : String.valueOf(result.getClass().getMethod("getPutMessageStatus").invoke(result));
    }

    private static Object name(String name) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("topic", isTopic(name));
        found.put("sent", isTopic(name) && accepts("isNotAllowedSendTopic", name));
        found.put("group", accepts("checkGroup", name));
        found.put("system", TopicValidator.isSystemTopic(name));
        return found;
    }

    private static boolean isTopic(String name) throws Exception {
        for (Method one : TopicValidator.class.getMethods()) {
            if (one.getName().equals("validateTopic")) {
                if (one.getParameterCount() == 2) {
                    return (Boolean) one.invoke(null, name, RemotingCommand.createResponseCommand(0, null));
                }
                Object result = one.invoke(null, name);
                return (Boolean) result.getClass().getMethod("isValid").invoke(result);
            }
        }
        throw new IllegalStateException("no validateTopic");
    }

    private static boolean accepts(String check, String name) throws Exception {
        try {
            Validators.class.getMethod(check, String.class).invoke(null, name);
            return true;
        } catch (InvocationTargetException error) {
            return false;
        }
    }

    /** The messages of an answer; null ends the list where the decoder drops one, and with it all after it. */
    private static Object records(ByteBuffer buffer) {
        List<Object> found = new ArrayList<>();
        while (buffer.hasRemaining()) {
            MessageExt one = MessageDecoder.decode(buffer);
            if (one == null) {
                found.add(null);
                break;
            }
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("topic", one.getTopic());
            fields.put("body", shown(one.getBody() == null ? new byte[0] : one.getBody()));
            fields.put("properties", shown(one.getProperties()));
            fields.put("bornHost", host(one.getBornHost()));
            fields.put("storeHost", host(one.getStoreHost()));
            fields.put("msgId", one.getMsgId());
            fields.put("numbers", Arrays.asList(one.getQueueId(), one.getFlag(), one.getQueueOffset(), one.getCommitLogOffset(), one.getSysFlag(),
                one.getBornTimestamp(), one.getStoreTimestamp(), one.getReconsumeTimes(), one.getPreparedTransactionOffset(), one.getBodyCRC(), one.getStoreSize()));
            found.add(fields);
        }
        return found;
    }

    private static Object shown(Map<String, String> properties) {
        Map<String, Object> found = new TreeMap<>();
        if (properties != null) {
            properties.forEach((name, value) -> found.put(name, value.length() > LONG ? value.length() : value));
        }
        return found;
    }

    private static Object host(java.net.SocketAddress host) {
        return Arrays.asList(address((InetSocketAddress) host), ((InetSocketAddress) host).getPort());
    }

    private static String address(InetSocketAddress host) {
        return hex(host.getAddress().getAddress());
    }

    private static Object shown(byte[] bytes) {
        if (bytes.length <= LONG) {
            return hex(bytes);
        }
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return Arrays.asList(bytes.length, crc.getValue());
    }

    private static String text(String hex) {
        return new String(chars(bytes(hex)));
    }

    private static char[] chars(byte[] bytes) {
        char[] found = new char[bytes.length / 2];
        ByteBuffer.wrap(bytes).asCharBuffer().get(found);
        return found;
    }

    private static long number(String hex) {
        return ByteBuffer.wrap(bytes(hex)).getLong();
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static String json(Object value) {
        if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((name, member) -> members.add(json(name) + ":" + json(member)));
            return "{" + String.join(",", members) + "}";
        } else if (value instanceof List) {
            List<String> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(json(item)));
            return "[" + String.join(",", items) + "]";
        } else if (value instanceof String) {
            StringBuilder text = new StringBuilder("\"");
            for (char one : ((String) value).toCharArray()) {
                text.append(one == '"' || one == '\\' ? "\\" + one : one < ' ' || one > '~' ? String.format("\\u%04x", (int) one) : one);
            }
            return text.append('"').toString();
        }
        return String.valueOf(value);
    }
}

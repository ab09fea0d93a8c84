import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.PrintWriter;
import java.lang.annotation.Annotation;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Writes codes.jsonl, headers.jsonl, frames.jsonl, readings.jsonl and header_readings.jsonl into args[0]; args[1] is the
 * package of RequestCode. Header classes are found by walking the jar of RequestCode. Frames are encoded as NettyEncoder does.
 */
public class RemotingHeaders {
    private static final String[] SUFFIXES = {
        "-\u00dcn\u00efc\u00f6d\u00e9", "-\u6f22\u5b57", "-\ud83d\ude80", " \"q\" 'q' \\ /", "\u0001k\u0002", "\r\n\t", "%RETRY%a=b&c;d,e",
        "<>&\u2028\u007f", "",
    };
    private static final byte[] BODY = {'b', 'o', 'd', 'y', 0, (byte) 0xff, '{'};
    private static final String REMARK = "remark \u00fc\u6f22\ud83d\ude80 \"\\\n";

    private static String base;

    public static void main(String[] args) throws Exception {
        base = args[1];
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, String.valueOf(MQVersion.CURRENT_VERSION));
        List<Map<String, Object>> headers = new ArrayList<>();
        for (Class<? extends CommandCustomHeader> one : headerClasses()) {
            headers.add(header(one));
        }
        List<Map<String, Object>> codes = new ArrayList<>();
        codes().forEach((name, values) -> {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("group", name);
            line.put("values", values);
            codes.add(line);
        });
        write(args[0] + "/codes.jsonl", codes);
        write(args[0] + "/headers.jsonl", headers);
        write(args[0] + "/frames.jsonl", frames());
        write(args[0] + "/readings.jsonl", readings());
        write(args[0] + "/header_readings.jsonl", headerReadings());
        System.exit(0);
    }

    private static Map<String, Object> codes() throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        for (String name : new String[] {base + ".RequestCode", base + ".ResponseCode", "org.apache.rocketmq.common.sysflag.MessageSysFlag",
            "org.apache.rocketmq.common.sysflag.PullSysFlag", "org.apache.rocketmq.common.sysflag.TopicSysFlag",
            "org.apache.rocketmq.common.constant.PermName"}) {
            Class<?> type = Class.forName(name);
            Map<String, Object> values = new LinkedHashMap<>();
            List<Class<?>> types = new ArrayList<>();
            for (Class<?> at = type; at != Object.class; at = at.getSuperclass()) {
                types.add(0, at);
            }
            for (Class<?> at : types) {
                for (Field field : at.getDeclaredFields()) {
                    if (field.getType() == int.class && Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        values.put(field.getName(), field.getInt(null));
                    }
                }
            }
            all.put(type.getSimpleName(), values);
        }
        Map<String, Object> languages = new LinkedHashMap<>();
        for (LanguageCode one : LanguageCode.values()) {
            languages.put(one.name(), (int) one.getCode());
        }
        all.put("LanguageCode", languages);
        Map<String, Object> serializeTypes = new LinkedHashMap<>();
        for (SerializeType one : SerializeType.values()) {
            serializeTypes.put(one.name(), (int) one.getCode());
        }
        all.put("SerializeType", serializeTypes);
        Map<String, Object> versions = new LinkedHashMap<>();
        for (MQVersion.Version one : MQVersion.Version.values()) {
            versions.put(one.name(), one.ordinal());
        }
        all.put("MQVersion.Version", versions);
        all.put("MQVersion", Collections.singletonMap("CURRENT_VERSION", MQVersion.CURRENT_VERSION));
        return all;
    }

    /** Every concrete implementation of CommandCustomHeader in the jar that holds RequestCode, by name. */
    private static List<Class<? extends CommandCustomHeader>> headerClasses() throws Exception {
        List<Class<? extends CommandCustomHeader>> found = new ArrayList<>();
        String jar = Class.forName(base + ".RequestCode").getProtectionDomain().getCodeSource().getLocation().getPath();
        TreeSet<String> names = new TreeSet<>();
        try (JarFile file = new JarFile(jar)) {
            file.stream().map(entry -> entry.getName()).filter(name -> name.endsWith(".class")).forEach(names::add);
        }
        for (String name : names) {
            Class<?> type;
            try {
                type = Class.forName(name.substring(0, name.length() - 6).replace('/', '.'), false, RemotingHeaders.class.getClassLoader());
            } catch (LinkageError error) {
                continue;
            }
            if (CommandCustomHeader.class.isAssignableFrom(type) && !Modifier.isAbstract(type.getModifiers())) {
                found.add(type.asSubclass(CommandCustomHeader.class));
            }
        }
        return found;
    }

    private static List<Field> fieldsOf(Class<?> type) {
        List<Field> fields = new ArrayList<>();
        for (Class<?> at = type; at != Object.class; at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("this")) {
                    field.setAccessible(true);
                    fields.add(field);
                }
            }
        }
        return fields;
    }

    private static Map<String, Object> header(Class<? extends CommandCustomHeader> type) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("class", type.getSimpleName());
        line.put("package", type.getPackage().getName());
        Annotation action = annotation(type.getAnnotations(), "RocketMQAction");
        Object code = action == null ? null : ask(action, "value");
        line.put("code", code);
        if (action != null) {
            List<Object> actions = new ArrayList<>();
            for (Object one : (Object[]) ask(action, "action")) {
                actions.add(one.toString());
            }
            line.put("actions", actions);
            line.put("resource", ((Enum<?>) ask(action, "resource")).name());
        }
        List<Object> described = new ArrayList<>();
        for (Field field : fieldsOf(type)) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("name", field.getName());
            one.put("type", field.getGenericType().getTypeName());
            one.put("required", annotation(field.getAnnotations(), "CFNotNull") != null);
            one.put("nullable", annotation(field.getAnnotations(), "CFNullable") != null);
            if (field.getDeclaringClass() != type) {
                one.put("inherited", field.getDeclaringClass().getSimpleName());
            }
            Annotation resource = annotation(field.getAnnotations(), "RocketMQResource");
            if (resource != null) {
                one.put("resource", ((Enum<?>) ask(resource, "value")).name());
                one.put("splitter", ask(resource, "splitter"));
            }
            described.add(one);
        }
        line.put("fields", described);
        List<Object> samples = new ArrayList<>();
        for (String name : new String[] {"all", "required"}) {
            samples.add(sample(type, name, code == null ? 105 : (Integer) code));
        }
        line.put("samples", samples);
        return line;
    }

    private static Map<String, Object> sample(Class<? extends CommandCustomHeader> type, String name, int code) throws Exception {
        CommandCustomHeader header = instance(type);
        int index = 0;
        for (Field field : fieldsOf(type)) {
            if (name.equals("all") || annotation(field.getAnnotations(), "CFNotNull") != null) {
                field.set(header, value(field, index));
            } else if (field.get(header) instanceof Long && (Long) field.get(header) > 1_000_000_000_000L) {
                field.set(header, 1_700_000_000_000L);  // the clock
            }
            index++;
        }
        Map<String, Object> values = new LinkedHashMap<>();
        Map<String, String> ext = new TreeMap<>();
        for (Field field : fieldsOf(type)) {
            Object value = field.get(header);
            if (value != null) {
                values.put(field.getName(), value instanceof Number || value instanceof Boolean ? value : value.toString());
                ext.put(field.getName(), value.toString());
            }
        }
        List<Object> frames = new ArrayList<>();
        for (SerializeType serialize : SerializeType.values()) {
            frames.add(frame(header, ext, code, serialize, 0, null, null));
            frames.add(frame(header, ext, code, serialize, 2, null, BODY));
            frames.add(frame(header, ext, code, serialize, 1, REMARK, BODY));
        }
        Map<String, Object> sample = new LinkedHashMap<>();
        sample.put("name", name);
        sample.put("values", values);
        sample.put("frames", frames);
        return sample;
    }

    private static CommandCustomHeader instance(Class<? extends CommandCustomHeader> type) throws Exception {
        Constructor<? extends CommandCustomHeader> made = type.getDeclaredConstructor();
        made.setAccessible(true);
        return made.newInstance();
    }

    /** The value of the field with this index in its class: values of neighbours differ in length, sign and size. */
    private static Object value(Field field, int index) {
        Class<?> type = field.getType();
        if (field.getName().equals("topicFilterType")) {
            return "SINGLE_TAG";
        } else if (field.getName().equals("commitOrRollback")) {
            return 8;
        } else if (type == String.class) {
            return field.getName() + SUFFIXES[index % SUFFIXES.length];
        } else if (type == int.class || type == Integer.class) {
            return new int[] {index, -1000 - index, Integer.MAX_VALUE - index, Integer.MIN_VALUE + index}[index % 4];
        } else if (type == long.class || type == Long.class) {
            return new long[] {(1L << 53) + 1 + index, -1_700_000_000_000L - index, Long.MAX_VALUE - index, Long.MIN_VALUE + index}[index % 4];
        } else if (type == boolean.class || type == Boolean.class) {
            return index % 2 == 0;
        } else if (type == double.class || type == Double.class) {
            return index + 0.1;
        } else if (type.isEnum()) {
            Object[] constants = type.getEnumConstants();
            return constants[constants.length - 1];
        }
        return null;  // a collection or an object: RemotingCommand writes its toString() and refuses to read it
    }

    /** A frame with the header, its ext fields where they are not those of `ext`, and those of them that RocketMQ does not read. */
    private static Map<String, Object> frame(CommandCustomHeader header, Map<String, String> ext, int code, SerializeType serialize,
        int flag, String remark, byte[] body) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setOpaque(7);
        command.setFlag(flag);
        command.setRemark(remark);
        command.setBody(body);
        command.setSerializeTypeCurrentRPC(serialize);
        Map<String, Object> one = described(command, false);
        RemotingCommand read = RemotingCommand.decode(ByteBuffer.wrap(bytes(((String) one.get("frame")).substring(8))));
        Map<String, String> found = read.getExtFields() == null ? new TreeMap<>() : new TreeMap<>(read.getExtFields());
        if (!found.equals(ext)) {
            one.put("ext", found);
        }
        CommandCustomHeader again = read.decodeCommandCustomHeader(header.getClass());
        List<Object> ignored = new ArrayList<>();
        for (Field field : fieldsOf(header.getClass())) {
            if (found.containsKey(field.getName()) && !Objects.equals(field.get(header), field.get(again))) {
                if (field.get(again) != null && !field.getType().isPrimitive()) {
                    throw new IllegalStateException(field + ": " + field.get(again));
                }
                ignored.add(field.getName());
            }
        }
        if (!ignored.isEmpty()) {
            one.put("ignored", ignored);
        }
        return one;
    }

    /** The frame of the command and what it holds, the ext fields only with `ext`. */
    private static Map<String, Object> described(RemotingCommand command, boolean ext) throws Exception {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("code", command.getCode());
        one.put("flag", command.getFlag());
        one.put("language", command.getLanguage().name());
        one.put("opaque", command.getOpaque());
        one.put("version", command.getVersion());
        one.put("serialize", command.getSerializeTypeCurrentRPC().name());
        one.put("remark", command.getRemark());
        one.put("body", command.getBody() == null ? "" : hex(command.getBody()));
        if (ext) {
            one.put("ext", command.getExtFields());
        }
        ByteBuf out = Unpooled.buffer();
        command.fastEncodeHeader(out);
        if (command.getBody() != null) {
            out.writeBytes(command.getBody());
        }
        byte[] frame = new byte[out.readableBytes()];
        out.readBytes(frame);
        one.put("frame", hex(frame));
        return one;
    }

    /** Frames of commands without a header class. */
    private static List<Map<String, Object>> frames() throws Exception {
        List<Map<String, Object>> all = new ArrayList<>();
        for (SerializeType serialize : SerializeType.values()) {
            for (int flag = 0; flag < 4; flag++) {
                for (String remark : new String[] {null, "hi"}) {
                    for (byte[] body : new byte[][] {null, {'x', 'y'}}) {
                        for (int ext = 0; ext < 2; ext++) {
                            all.add(plain(serialize, 105, flag, 7, LanguageCode.JAVA, MQVersion.CURRENT_VERSION, remark, body,
                                ext == 0 ? null : new String[] {"topic", "TopicA"}));
                        }
                    }
                }
            }
            for (int number : new int[] {0, -1, 1, -1000, 32767, 32768, 65535, 200050, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
                all.add(plain(serialize, number, 0, number, LanguageCode.JAVA, number, null, null, null));
                all.add(plain(serialize, 0, number, 0, LanguageCode.JAVA, 0, null, null, null));
            }
            for (LanguageCode language : LanguageCode.values()) {
                all.add(plain(serialize, 34, 0, 7, language, 317, null, null, null));
            }
            all.add(plain(serialize, 34, 0, 7, LanguageCode.GO, 317, "", new byte[0], new String[0]));
            all.add(plain(serialize, 34, 0, 7, LanguageCode.GO, 317, REMARK, BODY, new String[] {"empty", "", "\u00fc\u6f22\ud83d\ude80", "\u0000\u0001\u001f\u007f\"\\/\u2028", "null", null}));
            char[] many = new char[40_000];
            Arrays.fill(many, 'x');
            all.add(plain(serialize, 10, 0, 7, LanguageCode.JAVA, 317, null, null, new String[] {"properties", new String(many)}));
        }
        return all;
    }

    private static Map<String, Object> plain(SerializeType serialize, int code, int flag, int opaque, LanguageCode language, int version,
        String remark, byte[] body, String[] ext) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, null);
        command.setSerializeTypeCurrentRPC(serialize);
        command.setFlag(flag);
        command.setOpaque(opaque);
        command.setLanguage(language);
        command.setVersion(version);
        command.setRemark(remark);
        command.setBody(body);
        if (ext != null) {
            HashMap<String, String> map = new HashMap<>();
            for (int i = 0; i < ext.length; i += 2) {
                map.put(ext[i], ext[i + 1]);
            }
            command.setExtFields(map);
        }
        return described(command, true);
    }

    /** What RemotingCommand.decode makes of frames that other peers may send: the bytes after the length word. */
    private static List<Map<String, Object>> readings() {
        List<Map<String, Object>> all = new ArrayList<>();
        for (String text : new String[] {
            "{}", "{ }", " {\n\t\"code\" : 105 , \"opaque\" : 7 } ", "{\"code\":105}", "{\"opaque\":7,\"code\":105,\"language\":\"GO\"}",
            "{\"code\":\"105\",\"opaque\":\"-7\",\"flag\":\"2\",\"version\":\"317\"}", "{code:105,opaque:7}", "{'code':105,'remark':'it'}",
            "{\"code\":105,\"language\":\"ELVISH\"}", "{\"code\":105,\"language\":\"java\"}", "{\"code\":105,\"language\":9}", "{\"code\":105,\"language\":null}",
            "{\"code\":105,\"unknown\":{\"a\":[1,{\"b\":null}]}}", "{\"code\":105,\"remark\":null,\"extFields\":null}", "{\"code\":105,\"remark\":5}",
            "{\"code\":105,\"extFields\":{}}", "{\"code\":105,\"extFields\":{\"i\":5,\"l\":-9223372036854775808,\"b\":true,\"d\":1.50,\"e\":1e3,\"n\":null,\"s\":\"x\"}}",
            "{\"code\":105,\"extFields\":{\"o\":{\"b\":1,\"a\":[1, 2]},\"l\":[1, \"x\"]}}", "{\"code\":105,\"extFields\":{\"a\":\"1\",\"a\":\"2\"}}",
            "{\"code\":105,\"extFields\":{5:\"x\",a:\"y\"}}", "{\"code\":105,\"extFields\":[]}", "{\"code\":105,\"extFields\":\"\"}",
            "{\"code\":105,\"serializeTypeCurrentRPC\":\"ROCKETMQ\"}", "{\"code\":105,\"serializeTypeCurrentRPC\":\"XML\"}", "{\"code\":1.0}", "{\"code\":1.5}", "{\"code\":1e2}", "{\"code\":true}",
            "{\"code\":null,\"opaque\":null}", "{\"code\":2147483648}", "{\"code\":-2147483649}", "{\"code\":99999999999999999999}", "{\"CODE\":105,\"Opaque\":7}",
            "{\"code\":105,}", "{\"code\":105", "{\"code\":105}x", "{\"code\":105}{\"code\":106}", "[]", "[{\"code\":105}]", "null", "5", "\"x\"", "", " ",
            "{\"code\":105,\"remark\":\"\\u00fc\\uD83D\\uDE80\\/\\b\\x41\"}", "{\"code\":105,\"remark\":\"a\nb\"}", "{\"code\":105,\"remark\":\"\\ud83d\"}",
            "{/* c */\"code\":105}", "{\"code\":105,\"suspended\":true}", "{\"code\":105,\"body\":\"eHk=\"}", "{\"code\":105,\"type\":\"RESPONSE_COMMAND\",\"onewayRPC\":true}",
            "{\"@type\":\"java.util.HashMap\",\"code\":105}", "{\"code\":105,\"extFields\":{\"a\":\"x\",\"b\":{\"$ref\":\"$.extFields.a\"}}}", "{\"code\":0x10}", "{\"code\":+5}", "{\"code\":NaN}"}) {
            all.add(reading(frame(SerializeType.JSON, text.getBytes(StandardCharsets.UTF_8), new byte[0]), "json", text));
        }
        byte[] invalid = {'{', '"', 'r', 'e', 'm', 'a', 'r', 'k', '"', ':', '"', (byte) 0xff, (byte) 0xc3, '"', '}'};
        all.add(reading(frame(SerializeType.JSON, invalid, new byte[0]), "json", "bytes that are not UTF-8"));
        String start = "0069 00 01df 00000007 00000000 ";
        for (String[] one : new String[][] {
            {"nothing after the fixed part", start + "00000000 00000000"}, {"unknown language", "0069 63 01df 00000007 00000000 00000000 00000000"},
            {"negative code, opaque and flag", "ffff 0c 8000 80000000 ffffffff 00000000 00000000"},
            {"remark and a field", start + "00000002 6869 00000011 0005 746f706963 00000006 546f70696341"},
            {"empty value", start + "00000000 0000000b 0005 746f706963 00000000"}, {"empty key", start + "00000000 0000000c 0000 00000006 546f70696341"},
            {"a field twice", start + "00000000 00000010 0001 61 00000001 31 0001 61 00000001 32"},
            {"value longer than the map", start + "00000000 00000011 0005 746f706963 000000ff 546f70696341"},
            {"value that ends after the map", start + "00000000 0000000d 0005 746f706963 00000006 546f70696341"},
            {"map longer than the header", start + "00000000 00000fff 0005 746f706963 00000006 546f70696341"},
            {"negative length of the map", start + "00000000 ffffffff"}, {"negative length of a value", start + "00000000 0000000b 0005 746f706963 ffffffff"},
            {"negative length of the remark", start + "ffffffff 00000000"}, {"remark longer than the header", start + "00000fff 6869 00000000"},
            {"bytes after the map", start + "00000000 00000000 0102"}, {"cut in the fixed part", "0069 00 01df 0000"}, {"no length of the map", start + "00000000"},
            {"no header", ""}, {"remark that is not UTF-8", start + "00000002 ffc3 00000000"}}) {
            all.add(reading(frame(SerializeType.ROCKETMQ, bytes(one[1].replace(" ", "")), new byte[0]), "binary", one[0]));
        }
        String json = "{\"code\":105}";
        byte[] header = json.getBytes(StandardCharsets.UTF_8);
        all.add(reading(frame(SerializeType.JSON, header, new byte[] {'x', 'y'}), "frame", "with a body"));
        all.add(reading("00000040" + hex(header), "frame", "header length after the end"));
        all.add(reading("0200000c" + hex(header), "frame", "unknown serialize type"));
        all.add(reading("ff00000c" + hex(header), "frame", "serialize type -1"));
        all.add(reading("000000", "frame", "no header length"));
        return all;
    }

    /** What decodeCommandCustomHeader makes of fields that are missing or hold other values than RocketMQ writes. */
    private static List<Map<String, Object>> headerReadings() throws Exception {
        String[] integers = {"5", "-5", "+5", "05", "", " ", "5 ", " 5", "5.0", "1e3", "0x10", "abc", "true", "null", "2147483647", "2147483648", "\u0665"};
        String[] longs = {"9223372036854775807", "9223372036854775808", "5L", "-0", "x"};
        String[] booleans = {"true", "TRUE", "True", "yes", "1", "0", "", " true", "false", "null"};
        List<Map<String, Object>> all = new ArrayList<>();
        for (String[] one : new String[][] {{"header.GetMaxOffsetRequestHeader", "queueId"}, {"header.PullMessageRequestHeader", "queueId"},
            {"header.NotificationRequestHeader", "queueId"}, {"header.SendMessageRequestHeaderV2", "e"}}) {
            readFields(all, one[0], one[1], integers);
        }
        for (String[] one : new String[][] {{"header.UpdateConsumerOffsetRequestHeader", "commitOffset"}, {"header.PullMessageRequestHeader", "commitOffset"}}) {
            readFields(all, one[0], one[1], longs);
        }
        for (String[] one : new String[][] {{"header.ConsumerSendMsgBackRequestHeader", "unitMode"}, {"header.SendMessageRequestHeaderV2", "m"},
            {"header.namesrv.GetRouteInfoRequestHeader", "acceptStandardJsonOnly"}}) {
            readFields(all, one[0], one[1], booleans);
        }
        readFields(all, "header.SendMessageRequestHeaderV2", "a", "", "\u0000", "x");
        readFields(all, "header.SearchOffsetRequestHeader", "boundaryType", "LOWER", "UPPER", "lower", "upper", "Upper", "x", "");
        readFields(all, "header.EndTransactionRequestHeader", "commitOrRollback", "0", "4", "8", "12", "x");
        readFields(all, "header.CreateTopicRequestHeader", "topicFilterType", "SINGLE_TAG", "MULTI_TAG", "single_tag", "x");
        return all;
    }

    /** Adds what the header class reads of `values` of one field, of its absence, and of ext fields without it. */
    private static void readFields(List<Map<String, Object>> all, String name, String field, String... values) throws Exception {
        Class<? extends CommandCustomHeader> type;
        try {
            type = Class.forName(base + "." + name).asSubclass(CommandCustomHeader.class);
        } catch (ClassNotFoundException error) {
            return;
        }
        if (fieldsOf(type).stream().noneMatch(one -> one.getName().equals(field))) {
            return;
        }
        for (int i = -2; i < values.length; i++) {
            HashMap<String, String> ext = i == -2 ? null : new HashMap<>();
            if (i >= 0) {
                ext.put(field, values[i]);
            }
            RemotingCommand command = RemotingCommand.createRequestCommand(105, null);
            command.setExtFields(ext);
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("class", type.getSimpleName());
            line.put("field", field);
            line.put("ext", ext);
            try {
                CommandCustomHeader read = command.decodeCommandCustomHeader(type);
                for (Field one : fieldsOf(type)) {
                    if (one.getName().equals(field)) {
                        Object value = one.get(read);
                        line.put("read", value instanceof Number || value instanceof Boolean || value == null ? value : value.toString());
                    }
                }
            } catch (Exception error) {
                line.put("refused", error.getClass().getSimpleName());
            }
            all.add(line);
        }
    }

    private static String frame(SerializeType serialize, byte[] header, byte[] body) {
        return hex(new byte[] {serialize.getCode(), (byte) (header.length >> 16), (byte) (header.length >> 8), (byte) header.length}) + hex(header) + hex(body);
    }

    private static Map<String, Object> reading(String hex, String kind, String name) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("kind", kind);
        one.put("name", name);
        one.put("bytes", hex);
        try {
            RemotingCommand read = RemotingCommand.decode(ByteBuffer.wrap(bytes(hex)));
            boolean isNewId = read.getOpaque() != RemotingCommand.decode(ByteBuffer.wrap(bytes(hex))).getOpaque();
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("code", read.getCode());
            found.put("flag", read.getFlag());
            found.put("language", read.getLanguage() == null ? null : read.getLanguage().name());
            found.put("opaque", isNewId ? null : read.getOpaque());
            found.put("version", read.getVersion());
            found.put("serialize", String.valueOf(read.getSerializeTypeCurrentRPC()));
            found.put("remark", read.getRemark());
            found.put("ext", read.getExtFields() == null ? null : new TreeMap<>(asStrings(read.getExtFields())));
            found.put("body", read.getBody() == null ? "" : hex(read.getBody()));
            one.put("read", found);
        } catch (Throwable error) {
            one.put("refused", error.getClass().getSimpleName());
        }
        return one;
    }

    private static Map<String, Object> asStrings(Map<?, ?> map) {
        Map<String, Object> found = new HashMap<>();
        map.forEach((name, value) -> found.put(String.valueOf(name), value));
        return found;
    }

    private static Annotation annotation(Annotation[] all, String name) {
        for (Annotation one : all) {
            if (one.annotationType().getSimpleName().equals(name)) {
                return one;
            }
        }
        return null;
    }

    private static Object ask(Annotation annotation, String member) throws Exception {
        return annotation.annotationType().getMethod(member).invoke(annotation);
    }

    private static void write(String path, List<Map<String, Object>> lines) throws Exception {
        try (PrintWriter out = new PrintWriter(path, "UTF-8")) {
            for (Map<String, Object> line : lines) {
                out.print(json(line) + "\n");
            }
        }
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

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }
}

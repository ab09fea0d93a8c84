import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;

/** Prints `CLASS KEY IMPORTANT VALUE` for each setting of these classes: RocketMQ's defaults. */
public class Settings {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> kind = Class.forName("org.apache.rocketmq." + name);
            Object defaults = kind.getDeclaredConstructor().newInstance();
            for (Class<?> one = kind; one != Object.class; one = one.getSuperclass()) {
                for (Field field : one.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers())) {
                        continue;
                    }
                    field.setAccessible(true);
                    Object value = field.get(defaults);
                    boolean important = false;
                    for (Annotation mark : field.getAnnotations()) {
                        important |= mark.annotationType().getSimpleName().equals("ImportantField");
                    }
                    if (value == null || value instanceof String || value instanceof Number
                            || value instanceof Boolean || value instanceof Enum) {
                        System.out.println(String.join("\t", "SETTING", kind.getSimpleName(), field.getName(),
                                String.valueOf(important), value == null ? "" : value.toString()));
                    }
                }
            }
        }
    }
}

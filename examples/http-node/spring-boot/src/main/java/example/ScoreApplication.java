package example;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;

/** A node of an agent, in Java. */
@SpringBootApplication
@RestController
public class ScoreApplication {
    private final ConcurrentHashMap<String, Score> answers = new ConcurrentHashMap<>();

    record Turn(String question) {}

    record Score(String customer, int score) {}

    public static void main(String[] args) {
        SpringApplication.run(ScoreApplication.class, args);
    }

    @PostMapping("/score")
    Score score(@RequestBody Turn turn, @RequestHeader("Idempotency-Key") String key) {
        return answers.computeIfAbsent(key, unused -> {
            String[] words = turn.question().replaceAll("\\?+$", "").split("\\s+");
            String customer = words[words.length - 1];
            int sum = 0;
            for (byte part : customer.getBytes(StandardCharsets.UTF_8)) {
                sum += part & 0xff;
            }
            return new Score(customer, sum % 100);
        });
    }
}

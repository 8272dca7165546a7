package example;

import java.util.List;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** Asks with Spring AI as its starter is set up: words, a stream, a typed answer and a tool of the client. */
@SpringBootApplication
public class SpringAiClient {
    record Forecast(String city, int days) {}

    static class WeatherTools {
        int calls;

        @Tool(name = "get_weather", description = "The weather of a city")
        String weather(String city) {
            calls++;
            return "sunny in " + city;
        }
    }

    public static void main(String[] args) {
        System.exit(SpringApplication.exit(SpringApplication.run(SpringAiClient.class, args)));
    }

    @Bean
    CommandLineRunner ask(ChatClient.Builder builder) {
        return args -> {
            ChatClient client = builder.build();
            String said = client.prompt("hello").call().content();
            check(said.contains("You said: hello"), said);
            List<String> pieces = client.prompt("hello again").stream().content().collectList().block();
            check(String.join("", pieces).contains("You said: hello again"), pieces.toString());
            Forecast forecast = client.prompt("a forecast for Seoul").call().entity(Forecast.class);
            check(forecast.equals(new Forecast("Seoul", 3)), forecast.toString());
            WeatherTools tools = new WeatherTools();
            String answer = client.prompt("what is the weather in Seoul?").tools(tools).call().content();
            check(tools.calls == 1 && answer.contains("sunny in Seoul"), tools.calls + " " + answer);
            System.out.println("ok spring-ai");
        };
    }

    private static void check(boolean holds, String found) {
        if (!holds) {
            throw new AssertionError(found);
        }
    }
}

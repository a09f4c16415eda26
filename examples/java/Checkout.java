// SPDX-License-Identifier: Apache-2.0
// A service that prices orders. By itself it sends what the Java Flight Recorder sees:
//
//     WICK_URL=http://localhost:4040 java Checkout.java
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import jdk.jfr.Recording;

public class Checkout {
    static long priceItem(int n) {
        long total = 0;
        for (int i = 0; i < 40 * n; i++) total = (total * 31 + i) % 1000003;
        return total;
    }

    static String encodeOrder(long[] items) {
        StringBuilder out = new StringBuilder();
        for (long x : items) out.append(x).append(',');
        return out.toString();
    }

    static String handleOrder(int n) {
        long[] items = new long[20];
        for (int i = 0; i < items.length; i++) items[i] = priceItem(2000 + n % 7);
        return encodeOrder(items);
    }

    static void profileAndSend(String wick, double every) {
        HttpClient client = HttpClient.newHttpClient();
        for (;;) {
            try (Recording recording = new Recording()) {
                recording.enable("jdk.ExecutionSample").withPeriod(Duration.ofMillis(10));
                long from = System.currentTimeMillis() / 1000;
                recording.start();
                Thread.sleep((long) (1000 * every));
                recording.stop();
                Path file = Files.createTempFile("checkout", ".jfr");
                recording.dump(file);
                String url = wick + "/ingest?name=checkout-java&format=jfr&from=" + from + "&until=" + System.currentTimeMillis() / 1000;
                HttpRequest request = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofFile(file)).build();
                HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() != 200) System.err.println("not sent: " + answer.body());
                Files.delete(file);
            } catch (Exception e) {
                System.err.println("not sent: " + e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String wick = System.getenv("WICK_URL"), every = System.getenv("WICK_EVERY");
        if (wick != null) {
            Thread sender = new Thread(() -> profileAndSend(wick, every == null ? 10 : Double.parseDouble(every)));
            sender.setDaemon(true);
            sender.start();
        }
        for (int n = 0;; n++) {
            handleOrder(n);
            Thread.sleep(5);
        }
    }
}

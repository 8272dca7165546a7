// A node of an agent, in JavaScript.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const answers = new Map();

function score({ question }) {
  const customer = question.replace(/\?+$/, "").split(/\s+/).at(-1);
  const sum = Buffer.from(customer).reduce((total, byte) => total + byte, 0);
  return { customer, score: sum % 100 };
}

createServer(async (request, response) => {
  if (request.method !== "POST" || request.url !== "/score") {
    response.writeHead(404).end();
    return;
  }
  const key = request.headers["idempotency-key"];
  if (!answers.has(key)) answers.set(key, score(await json(request)));
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answers.get(key)));
}).listen(Number(process.env.PORT ?? 8000), "127.0.0.1");

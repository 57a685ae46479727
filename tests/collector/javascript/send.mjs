// The JavaScript SDK's OTLP/HTTP exporters, sending 25 tool calls (JSON), 25 more (protobuf, gzip) and
// 5 log records (JSON), in batches of 10.
//
//   npm install
//   node send.mjs http://127.0.0.1:4318    to a running receiver
//   node send.mjs                          to a server of its own, which writes requests.json
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { SpanStatusCode } from "@opentelemetry/api";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

Error.stackTraceLimit = 0; // the recording names no folder of this machine
const batches = { maxExportBatchSize: 10, scheduledDelayMillis: 60_000 };
const resource = resourceFromAttributes({ "service.name": "javascript-agent" });
const requests = [];
let base = process.argv[2];
let server;
if (!base) {
  server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    requests.push({
      path: request.url,
      "content-type": request.headers["content-type"],
      "content-encoding": request.headers["content-encoding"] ?? "identity",
      "user-agent": request.headers["user-agent"],
      body: Buffer.concat(chunks).toString("base64"),
    });
    response.writeHead(200, { "content-type": request.headers["content-type"] });
    response.end(request.headers["content-type"] === "application/json" ? "{}" : "");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  base = `http://127.0.0.1:${server.address().port}`;
}

async function calls(exporter, first) {
  const provider = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(exporter, batches)],
  });
  const tracer = provider.getTracer("agent", "1.0");
  for (let number = first; number < first + 25; number++) {
    const span = tracer.startSpan("execute_tool search_docs");
    span.setAttributes({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "search_docs",
      "gen_ai.tool.call.id": `call_${number}`,
      "gen_ai.tool.call.arguments": JSON.stringify({ query: "Erstattung für Käse 🧀" }),
      "gen_ai.tool.call.result": "No documents found",
      "sizes": [1, 2.5, Number.MAX_SAFE_INTEGER],
    });
    if (number % 5 === 4) {
      span.recordException(new Error("HTTP 503: search is down"));
      span.setStatus({ code: SpanStatusCode.ERROR, message: "HTTP 503: search is down" });
    }
    span.end();
  }
  await provider.forceFlush();
  await provider.shutdown();
}

await calls(new JsonExporter({ url: `${base}/v1/traces` }), 0);
await calls(new ProtobufExporter({ url: `${base}/v1/traces`, compression: "gzip" }), 25);

const logs = new LoggerProvider({
  resource,
  processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter({ url: `${base}/v1/logs` }), ...batches })],
});
for (let number = 0; number < 5; number++) {
  logs.getLogger("agent").emit({ eventName: "note", body: `line ${number}`, severityText: "INFO" });
}
await logs.forceFlush();
await logs.shutdown();
if (server) {
  writeFileSync("requests.json", JSON.stringify(requests, null, 1) + "\n");
  server.close();
}

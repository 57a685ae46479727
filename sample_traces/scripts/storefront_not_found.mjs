// The JavaScript half of record_storefront_not_found.py: an agent on the Vercel AI SDK.
// Run in a folder that holds the packages; LLM_URL is the scripted model, OUT the file for the spans.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const require = createRequire(path.join(process.cwd(), 'package.json'));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const { NodeTracerProvider } = await load('@opentelemetry/sdk-trace-node');
const { InMemorySpanExporter, SimpleSpanProcessor } = await load('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = await load('@opentelemetry/resources');
const { JsonTraceSerializer } = await load('@opentelemetry/otlp-transformer');
const { generateText, registerTelemetry, isStepCount, tool } = await load('ai');
const { OpenTelemetry } = await load('@ai-sdk/otel');
const { createOpenAI } = await load('@ai-sdk/openai');
const { z } = await load('zod');

const memory = new InMemorySpanExporter();
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({
    'service.name': 'storefront-chat',
    'service.version': '12.0.3',
    'deployment.environment.name': 'production',
  }),
  spanProcessors: [new SimpleSpanProcessor(memory)],
});
provider.register();
registerTelemetry(new OpenTelemetry());

const tools = {
  search_products: tool({
    description: 'Search the catalogue.',
    inputSchema: z.object({ query: z.string() }),
    execute: async () => {
      await pause(120);
      return [1841, 1842, 1850, 1866, 1902].map((id) => ({ id, page: `https://shop.example/products/${id}` }));
    },
  }),
  open_page: tool({
    description: 'Read a page of the shop.',
    inputSchema: z.object({ url: z.string() }),
    execute: async ({ url }) => {
      await pause(90);
      throw new Error(`HTTP 404 Not Found: ${url}`);
    },
  }),
};
const openai = createOpenAI({ baseURL: process.env.LLM_URL, apiKey: 'storefront' });
const answer = await generateText({
  model: openai.chat('gpt-4o-mini'),
  system: 'You help customers to find a product.',
  prompt: 'Which of your tents is the lightest?',
  tools,
  maxRetries: 0,
  stopWhen: isStepCount(10),
  telemetry: { functionId: 'shop-assistant' },
});
console.log(answer.text);
await provider.forceFlush();
fs.writeFileSync(process.env.OUT, Buffer.from(JsonTraceSerializer.serializeRequest(memory.getFinishedSpans())));

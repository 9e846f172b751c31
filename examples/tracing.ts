import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { type FinishedSpan, renderWaterfall, startTracing } from 'millrace/otel';
import { startModelServer } from 'millrace/testing';

const spans: FinishedSpan[] = [];
const exports = process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] !== undefined;
const tracing = startTracing({
  serviceName: 'millrace-example',
  onSpanEnd: (span) => spans.push(span),
  ...(exports ? {} : { exporter: 'none' }), // Without it, spans go to http://localhost:4318.
});

const currentTime = tool({
  name: 'current_time',
  description: 'Tells the time in a time zone.',
  parameters: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'] },
  readOnly: true,
  execute: ({ zone }) => new Date().toLocaleTimeString('en-GB', { timeZone: zone }),
});

const server = await startModelServer({ delayMs: 5 });
const loop = new AgentLoop({
  agentId: 'assistant',
  llmProvider: new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' }),
  toolProviders: [new LocalToolProvider([currentTime])],
});
const { text } = await loop.startTurn([{ role: 'user', content: 'What time is it in Tokyo and Paris?' }]).result();
console.log(`${text}\n`);
console.log(renderWaterfall(spans, { width: 80, color: process.stdout.isTTY }));

const { ended, exported, lastError } = await tracing.shutdown();
if (exports) console.log(`${exported} of ${ended} spans sent to ${tracing.endpoint}`, lastError ?? '');
await server.close();

import { once } from 'node:events';
import { createServer } from 'node:http';
import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';

const signature = 'EqQBCkgIARABGAIiQL8J+YgOKAqA==';

/** Simulates Anthropic's API with two fixed answers. Remove it and set ANTHROPIC_API_KEY for the real one. */
const answers = [
  [
    { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { index: 0, delta: { type: 'thinking_delta', thinking: 'I have to look. ' } },
    { index: 0, delta: { type: 'signature_delta', signature } },
    { index: 0 },
    { index: 1, content_block: { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} } },
    { index: 1, delta: { type: 'input_json_delta', partial_json: '{"city":"Oslo"}' } },
    { index: 1 },
  ],
  [
    { index: 0, content_block: { type: 'text', text: '' } },
    { index: 0, delta: { type: 'text_delta', text: 'Four degrees: ' } },
    { index: 0, delta: { type: 'text_delta', text: 'take a coat.' } },
    { index: 0 },
  ],
];
const requests: { messages: { content: { type: string; [member: string]: unknown }[] }[] }[] = [];

const vendor = createServer(async (request, response) => {
  let body = '';
  for await (const piece of request) body += piece;
  requests.push(JSON.parse(body));
  const blocks = answers[requests.length - 1] ?? [];
  const usage = { input_tokens: 20, output_tokens: 9 };
  const start = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [], usage };
  const reason = requests.length < answers.length ? 'tool_use' : 'end_turn';
  const events = [
    { type: 'message_start', message: start },
    ...blocks.map((block) => {
      const kind = 'delta' in block ? 'delta' : 'content_block' in block ? 'start' : 'stop';
      return { type: `content_block_${kind}`, ...block };
    }),
    { type: 'message_delta', delta: { stop_reason: reason }, usage },
    { type: 'message_stop' },
  ];
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''));
});
vendor.listen(0, '127.0.0.1');
await once(vendor, 'listening');
const address = vendor.address();
const port = typeof address === 'object' && address !== null ? address.port : 0;

const llmProvider = await createProvider('anthropic:claude-opus-4-8', {
  apiKey: process.env['ANTHROPIC_API_KEY'] ?? 'no-key-needed-here',
  baseUrl: `http://127.0.0.1:${port}/v1`,
});
const weather = tool({
  name: 'weather',
  description: 'Tells the weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  execute: () => ({ celsius: 4 }),
});
const loop = new AgentLoop({
  agentId: 'vendors',
  systemPrompt: 'Be brief.',
  llmProvider,
  reasoning: 'low',
  cache: true,
  toolProviders: [new LocalToolProvider([weather])],
});

const turn = loop.startTurn([{ role: 'user', content: 'Do I need a coat in Oslo?' }]);
turn.subscribe((event) => {
  if (event.kind === 'internal:reasoning-delta') console.log('thinks: ', event.text);
  if (event.kind === 'internal:tool-complete') console.log('tool:   ', event.toolName, JSON.stringify(event.content));
});
const { text, usage } = await turn.result();
console.log('says:   ', text);
console.log('tokens: ', usage.promptTokens, 'in,', usage.completionTokens, 'out');

const [, assistant, results] = requests[1]?.messages ?? [];
console.log('sent back:', assistant?.content.map(({ type }) => type).join(', '));
console.log('to the letter:', assistant?.content[0]?.['signature'] === signature);
console.log('results:', JSON.stringify(results?.content));

vendor.close();
vendor.closeAllConnections();

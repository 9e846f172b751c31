// An agent for the chat page, of the built package, to be killed: chat-server <folder of the store> <port>. Its model does what the user names.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { agent, agentTools, tool } from 'millrace';
import { chatPage } from 'millrace/chat';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { uiMessageHandler } from 'millrace/ui';

const [path, port = '0', accessKey = '', leaseMs = '2000'] = process.argv.slice(2);

/** How often the messages of the conversation were listed, by the word that asked for it. */
const lists = { list: 0, enumerate: 0 };
const slowText = Array.from({ length: 30 }, (_, index) => `word${index} `);
const markdown = `## Three ways to sort

There are *three* ways, and **one** of them is \`sort()\`. See [the manual](https://developer.mozilla.org/) for more.

1. Compare by number
2. Compare by name
   - ignoring case
   - with \`localeCompare\`

\`\`\`ts
const byAge = people.toSorted((a, b) => a.age - b.age);
console.log(byAge.map(({ name }) => name).join(', '));
\`\`\`

| Way     | Stable | Cost       |
| ------- | :----: | ---------: |
| number  |  yes   | O(n log n) |
| name    |  yes   | O(n log n) |

> Sorting in place changes the array that you were given.

- [x] measured
- [ ] documented
`;

/** What must do no harm: scripts, handlers, addresses, terminal sequences, characters that turn text around. */
export const hostile = [
  '<script>window.hit = 1</script><img src=x onerror="window.hit = 2"><svg onload="window.hit = 3">',
  '[a](javascript:window.hit=4) [b](JaVaScRiPt&colon;window.hit=5) [c](data:text/html,<script>window.hit=6</script>) [d](java&#115;cript:window.hit=7)',
  '![e](https://attacker.example/pixel.png) ![f](javascript:window.hit=8)',
  '<a href="javascript:window.hit=9">g</a> <iframe srcdoc="<script>parent.hit=10</script>"></iframe>',
  '\u001b[31mred\u001b[0m \u202egnp.exe\u202c \u2066isolated\u2069',
  '`<b onclick=window.hit=11>code</b>` and **<u onclick=window.hit=12>bold</u>**',
  '```html" onload="window.hit=13\n<script>window.hit = 14</script>\n```',
  '<style>body { display: none }</style><base href="https://attacker.example/"><form action="https://attacker.example/"><input name=q></form>',
].join('\n\n');

const text = (asked, isFirst) => {
  if (asked.includes('markdown')) return { text: markdown.match(/[\s\S]{1,40}/g) };
  if (asked.includes('hostile') && isFirst)
    return { text: hostile, toolCalls: [{ name: 'echo', arguments: { text: hostile } }] };
  if (asked.includes('huge')) return { text: ['x'.repeat(300_000), ' end'] };
  if (asked.includes('deep')) return { text: '> '.repeat(20_000) };
  if (asked.includes('slow'))
    return { text: slowText.flatMap((word, index) => [word, pause(index === 0 ? 0 : 60 * index)]) };
  if (asked.includes('think'))
    return { reasoning: 'I compare the two and take the **second**.', text: 'The second one.' };
  if (asked.includes('fail')) return { text: 'Half an ans', error: new Error('SECRET') };
  if (asked.includes('weather') && isFirst)
    return {
      text: 'Let me look.',
      toolCalls: [
        { name: 'weather', arguments: { city: 'Oslo' } },
        { name: 'weather', arguments: { city: 'Atlantis' } },
      ],
    };
  if (asked.includes('both') && isFirst)
    return {
      toolCalls: [
        { name: 'refund_order', arguments: { order: 1 } },
        { name: 'refund_order', arguments: { order: 2 } },
      ],
    };
  if (asked.includes('refund') && isFirst)
    return { text: 'I can do that.', toolCalls: [{ name: 'refund_order', arguments: { order: 17, reason: 'late' } }] };
  if (asked.includes('book') && isFirst) return { toolCalls: [{ name: 'book_seat' }] };
  if (asked.includes('wait') && isFirst) return { toolCalls: [{ name: 'wait' }] };
  if (asked.includes('delegate') && isFirst)
    return {
      text: 'I ask the researcher.',
      toolCalls: [{ name: 'researcher', arguments: { message: 'slow please' } }],
    };
  return { text: 'All is **done**.' };
};

const stepOf = ({ messages }) => {
  const at = messages.findLastIndex(({ role }) => role === 'user');
  const asked = String(messages[at]?.content).toLowerCase();
  const word = Object.keys(lists).find((each) => asked.includes(each));
  if (!word) return text(asked, messages.length === at + 1);
  lists[word]++;
  return { text: `${messages.map(({ content }) => content).join(', ')} (${lists[word]})` };
};
const model = () => scriptedLLM(Array.from({ length: 1_000 }, () => stepOf));

const string = (description) => ({ type: 'string', description });
const tools = [
  tool({
    name: 'weather',
    description: 'Tells the weather in a city.',
    parameters: { type: 'object', properties: { city: string('The city.') }, required: ['city'] },
    async execute({ city }) {
      await pause(city === 'Oslo' ? 300 : 600);
      if (city !== 'Oslo') throw new Error('SECRET');
      return { city, celsius: 4, sky: 'light rain' };
    },
  }),
  tool({
    name: 'refund_order',
    description: 'Refunds an order.',
    parameters: { type: 'object', properties: { order: { type: 'integer' }, reason: string('Why.') } },
    needsApproval: true,
    execute: ({ order }) => `Order ${order} is refunded.`,
  }),
  tool({
    name: 'book_seat',
    description: 'Books a seat on a train.',
    parameters: { type: 'object' },
    execute(_args, { ask }) {
      const city = ask({ prompt: 'Where do you want to go?' });
      const seat = ask({ prompt: 'Window or aisle?', data: { choices: ['window', 'aisle'] } });
      return `A seat at the ${seat} is booked to ${city}.`;
    },
  }),
  tool({
    name: 'wait',
    description: 'Waits for ever.',
    parameters: { type: 'object' },
    execute: (_args, { signal }) => pause(600_000, 'waited', { signal }),
  }),
  tool({
    name: 'echo',
    description: 'Gives back its argument.',
    parameters: { type: 'object', properties: { text: string('Any.') } },
    execute: (args) => args,
  }),
];

const taskStateStore = new LmdbStateStore({ path });
const researcher = agent({ id: 'researcher', description: 'Researches.', provider: model(), taskStateStore });
const assistant = agent({
  id: 'assistant',
  provider: model(),
  tools,
  toolProviders: [agentTools([researcher])],
  taskStateStore,
  leaseMs: Number(leaseMs),
});
const api = uiMessageHandler({
  agent: assistant,
  scopeOf: ({ headers }) =>
    accessKey === '' || headers.get('authorization') === `Bearer ${accessKey}` ? 'ann' : undefined,
  tools: 'full',
  reasoning: true,
});
const page = chatPage({
  title: 'Assistant',
  suggestions: ['Show me some markdown.', 'What is the weather?', 'Please refund order 17.'],
  accessKey: accessKey !== '',
});

const server = createServer(async (incoming, outgoing) => {
  try {
    const { method, url, headers } = incoming;
    const body = method === 'POST' ? { body: Readable.toWeb(incoming), duplex: 'half' } : {};
    const request = new Request(new URL(url, `http://${headers.host}`), { method, headers, ...body });
    const answer = url.startsWith('/api/chat') ? api : page;
    const response = await answer(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    if (response.body) await pipeline(Readable.fromWeb(response.body), outgoing);
    else outgoing.end();
  } catch {
    outgoing.destroy();
  }
});
server.listen(Number(port), '127.0.0.1', () => process.send?.(`http://127.0.0.1:${server.address().port}`));

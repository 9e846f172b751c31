// The agent that the clients ask, for `millrace serve --agent`. Writes each payment to the file LEDGER; waits where it is told to until there is a file GO.
import { appendFileSync, existsSync } from 'node:fs';
import { agent, tool } from '../../dist/index.js';

const { LEDGER = '', GO = '' } = process.env;
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: object({ amount: { type: 'number' }, of: { type: 'string' } }),
  execute: ({ amount, of }) => {
    appendFileSync(LEDGER, `${of} paid ${amount}\n`);
    return `paid ${amount}`;
  },
});
const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  parameters: object({ order: { type: 'string' }, of: { type: 'string' } }),
  needsApproval: true,
  execute: ({ order, of }) => {
    appendFileSync(LEDGER, `${of} refunded ${order}\n`);
    return `refunded ${order}`;
  },
});
const wait = tool({
  name: 'wait',
  description: 'Waits.',
  parameters: object({ of: { type: 'string' } }),
  readOnly: true,
  execute: async ({ of }) => {
    appendFileSync(LEDGER, `${of} waits\n`);
    while (!existsSync(GO)) await new Promise((resolve) => setTimeout(resolve, 20));
    return 'waited';
  },
});

const calls = { pay: { amount: 5 }, refund: { order: '7' }, wait: {} };
const name = / of:(\S+)/;

/** Calls the tools that the user names, one after the other, then fails where the user says so, and repeats else what the user said in all. `of:<name>` is the name in the ledger. */
const provider = {
  info: { providerName: 'script', model: 'script' },
  call: async ({ messages }) => {
    const said = messages.flatMap(({ role, content }) => (role === 'user' ? [String(content)] : []));
    const since = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1);
    const last = said.at(-1) ?? '';
    const words = last.split(' ');
    const called = words.filter((word) => word in calls)[since.filter(({ role }) => role === 'tool').length];
    if (called !== undefined) {
      const given = { ...calls[called], of: name.exec(last)?.[1] ?? 'nobody' };
      const toolCall = { name: called, arguments: JSON.stringify(given) };
      const toolCalls = [{ id: `${called}-${messages.length}`, type: 'function', function: toolCall }];
      return { message: { role: 'assistant', content: null, toolCalls }, toolCalls, finishReason: 'tool_calls' };
    }
    if (words.includes('fail')) throw new Error('A SECRET of the vendor');
    const result = since.findLast(({ role }) => role === 'tool')?.content ?? 'no call';
    const content = `${said.map((text) => text.replace(name, '')).join(', ')}: ${result}`;
    return { message: { role: 'assistant', content } };
  },
};

export default agent({ id: 'clerk', provider, tools: [pay, refund, wait] });

// An agent for clients in Python. Its model does what the message says, and each answer has a value.
import { appendFileSync } from 'node:fs';
import { agent, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const { LEDGER } = process.env;
const note = (line) => appendFileSync(LEDGER, `${line}\n`);
const finish = (said) => ({ toolCalls: [{ name: '__finish__', arguments: { said } }] });

function step({ messages }) {
  const last = messages.at(-1);
  if (last.role === 'tool') return finish(`The tool says ${last.content}`);
  if (last.content === 'File it.') return { toolCalls: [{ name: 'file_it' }] };
  if (last.content === 'Wait.') return { toolCalls: [{ name: 'wait' }] };
  if (last.content === 'Fail.') throw new Error('a secret of the inside');
  return finish('Hello.');
}

const filing = tool({
  name: 'file_it',
  description: 'Files.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'filed',
});

const waiting = tool({
  name: 'wait',
  description: 'Waits.',
  parameters: { type: 'object' },
  async execute(_args, { signal }) {
    note('the tool waits');
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    note('the tool is cancelled');
    return 'never read';
  },
});

export default agent({
  name: 'clerk',
  provider: scriptedLLM(Array(100).fill(step)),
  tools: [filing, waiting],
  outputSchema: { type: 'object', properties: { said: { type: 'string' } }, required: ['said'] },
});

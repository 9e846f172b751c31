// Runs the first turn of a process, and prints the CPU time that it took, in milliseconds, and whether ajv was loaded. The arguments of its calls are,
// by the first argument, `right`, `wrong`, or `library`: right ones of tools with schemas of zod.
import { Module } from 'node:module';
import { agent, fromAsyncIterable, type LLMProvider, tool } from 'millrace';
import { z } from 'zod';

const [kind] = process.argv.slice(2);
const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string', minLength: 1 },
    unit: { enum: ['celsius', 'fahrenheit'] },
    days: { type: 'array', items: { type: 'integer', minimum: 0 } },
  },
  required: ['city'],
  additionalProperties: false,
} as const;
const schema = kind === 'library' ? z.object({ city: z.string().min(1), days: z.array(z.int()) }) : parameters;
const given = JSON.stringify(kind === 'wrong' ? { town: 'Rome', days: ['today'] } : { city: 'Rome', days: [1, 2] });
const names = ['one', 'two', 'three', 'four', 'five'];

let answers = 0;
async function* answer() {
  await undefined;
  const isLast = ++answers > 1;
  const calls = names.map(
    (name, id) => ({ id: `${id}`, type: 'function', function: { name, arguments: given } }) as const,
  );
  const message = { role: 'assistant', content: 'Done.' } as const;
  yield { type: 'done', response: { message, toolCalls: isLast ? [] : calls } } as const;
}
const provider: LLMProvider = {
  call: () => Promise.reject(new Error('The bench streams.')),
  stream: () => fromAsyncIterable(answer),
};

const before = process.cpuUsage();
const tools = names.map((name) => tool({ name, description: 'Answers.', parameters: schema, execute: () => 'ok' }));
await agent({ id: 'bench', provider, tools }).run('Go.');
const { user, system } = process.cpuUsage(before);
const files = Object.keys(Reflect.get(Module, '_cache'));
console.log(
  JSON.stringify({ ms: (user + system) / 1_000, ajv: files.some((file) => file.includes('/node_modules/ajv/')) }),
);

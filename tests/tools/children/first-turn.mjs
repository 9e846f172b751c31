// Runs the first turn of a process, with five tools that are called (with schemas of zod: four), and prints which packages it loaded.
import { Module } from 'node:module';
import { agent, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';

const parameters = {
  type: 'object',
  properties: { city: { type: 'string', minLength: 1 }, days: { type: 'array', items: { type: 'integer' } } },
  required: ['city'],
  additionalProperties: false,
};
const names = ['one', 'two', 'three', 'four'];
const library = z.object({ city: z.string().min(1), days: z.array(z.int()).optional() });
const schema = process.argv[3] === 'zod' ? library : parameters;
const tools = names.map((name) => tool({ name, description: 'Answers.', parameters: schema, execute: () => 'ok' }));
const fifth = { name: 'fifth', description: 'Answers.', parameters };
const foreign = {
  name: 'foreign',
  getTools: () => [{ type: 'function', function: fifth }],
  executeTool: (call) => Promise.resolve({ toolCallId: call.id, content: 'ok', success: true }),
};
const given = process.argv[2] === 'wrong' ? { town: 'Rome' } : { city: 'Rome', days: [1, 2] };
const called = process.argv[3] === 'zod' ? names : [...names, 'fifth'];
const toolCalls = called.map((name) => ({ name, arguments: given }));
const provider = scriptedLLM([{ toolCalls }, { text: 'Done.' }]);
const toolProviders = schema === library ? [] : [foreign];
const clerk = agent({ id: 'clerk', provider, tools, toolProviders });
const { text } = await clerk.run('Go.');
const packages = new Set(
  Object.keys(Module._cache).flatMap((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []),
);
console.log(JSON.stringify({ text, packages: [...packages] }));

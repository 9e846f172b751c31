// The program that the conformance suite of MCP tests: a turn whose model calls the tools of the server at the address in the last argument.
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { InMemoryStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

interface Call {
  readonly name: string;
  readonly arguments?: object;
}

const url = process.argv.at(-1) ?? '';
const given: { readonly toolCalls?: readonly Call[] } = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const tools = mcpTools({ servers: { it: { url, required: true, prefix: '', roots: ['/tmp'] } } });
const context = { taskId: 't', agentId: 'a', contextId: 'c', metadata: {}, authContext: undefined };
const listed = await tools.getTools(context);

/** Arguments that a schema allows, as far as the suite's schemas go. */
function argumentsFor(schema: unknown): object {
  const properties: unknown = typeof schema === 'object' && schema ? Reflect.get(schema, 'properties') : undefined;
  const entries: [string, unknown][] = Object.entries(properties ?? {});
  return Object.fromEntries(
    entries.map(([name, property]) => {
      const type: unknown = typeof property === 'object' && property ? Reflect.get(property, 'type') : undefined;
      return [name, type === 'string' ? 'text' : type === 'boolean' ? true : 5];
    }),
  );
}

const wanted = given.toolCalls ?? [];
const others = listed
  .filter(({ function: { name } }) => !wanted.some((call) => call.name === name))
  .map(({ function: { name, parameters } }) => ({ name, arguments: argumentsFor(parameters) }));
const calls = [...wanted, ...others];
// What the schema does not allow reaches no server in a turn; the suite wants to see how it is sent.
const isLoose = (call: Call) => Object.values(call.arguments ?? {}).includes(null);
for (const call of calls.filter(isLoose)) {
  const args = call.arguments ?? {};
  const made = { id: 'c', type: 'function' as const, function: { name: call.name, arguments: JSON.stringify(args) } };
  const { signal } = new AbortController();
  const unused = { ask: () => {}, progress: () => {}, noteUsage: () => {}, messages: [], context: undefined };
  const about = {
    iteration: 1,
    callId: '1:0',
    idempotencyKey: 't:1:0',
    attempt: 1,
    traceContext: ROOT_CONTEXT,
    signal,
  };
  await tools.executeTool(made, { ...context, ...unused, ...about, call: made, arguments: args });
}
// One after the other: some servers count.
const steps = calls
  .filter((call) => !isLoose(call))
  .map((call) => ({ toolCalls: [{ name: call.name, arguments: call.arguments ?? {} }] }));
const config = {
  agentId: 'assistant',
  llmProvider: scriptedLLM([...steps, { text: 'done' }]),
  toolProviders: [tools],
  taskStateStore: new InMemoryStateStore(),
};
let turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'go' }]);
for (;;) {
  const { questions, messages } = await turn.result();
  if (questions.length === 0) {
    for (const { role, content } of messages) if (role === 'tool') console.log(JSON.stringify(content).slice(0, 300));
    break;
  }
  const answers = Object.fromEntries(questions.map(({ id, data }) => [id, answerTo(data)]));
  turn = AgentLoop.resume(turn.taskId, config, { answers });
}
await tools.close();

/** What a form requires and has no default for. */
function answerTo(data: unknown): object {
  const schema: unknown = typeof data === 'object' && data ? Reflect.get(data, 'requestedSchema') : undefined;
  const required: unknown = typeof schema === 'object' && schema ? Reflect.get(schema, 'required') : undefined;
  const needed = Array.isArray(required) ? required : [];
  const all = Object.entries(argumentsFor(schema)).filter(([name]) => needed.includes(name));
  return { action: 'accept', content: Object.fromEntries(all) };
}

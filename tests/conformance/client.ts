// The program that the conformance suite of MCP tests: a turn whose model calls the tools of the server at the address in the last argument.
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { InMemoryStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { mcpTools, memoryAuthStore } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

interface Call {
  readonly name: string;
  readonly arguments?: object;
}

const url = process.argv.at(-1) ?? '';
interface Given {
  readonly toolCalls?: readonly Call[];
  readonly client_id?: string;
  readonly client_secret?: string;
}

const given: Given = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const { client_id: clientId, client_secret: clientSecret } = given;
/** The authorization servers that the suite has just started, on this machine: an application knows its own. */
async function trustedOrigins(): Promise<readonly string[]> {
  const refusal = await fetch(url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });
  const [, at] = /resource_metadata="([^"]+)"/.exec(refusal.headers.get('www-authenticate') ?? '') ?? [];
  const wellKnown = '/.well-known/oauth-protected-resource';
  let metadata: unknown;
  for (const path of at === undefined ? [wellKnown + new URL(url).pathname, wellKnown] : [at]) {
    const answer = await fetch(new URL(path, url));
    if (answer.ok) metadata ??= await answer.json();
  }
  const named: unknown = Reflect.get(Object(metadata), 'authorization_servers');
  return Array.isArray(named) ? named.map((each) => new URL(String(each)).origin) : [];
}

// Other scenarios want no sign-in.
const isAuth = process.env['MCP_CONFORMANCE_SCENARIO']?.startsWith('auth/') ?? false;
const auth = {
  redirectUrl: 'http://localhost:3000/callback',
  store: memoryAuthStore(),
  ...(isAuth && { trustedOrigins: await trustedOrigins() }),
  ...(clientId === undefined
    ? { clientMetadataUrl: 'https://conformance-test.local/client-metadata.json' }
    : { clientId, clientSecret }),
};
const server = { url, required: true, prefix: '', roots: ['/tmp'], ...(isAuth && { auth }) };
const tools = mcpTools({ servers: { it: server } });
const context = { taskId: 't', agentId: 'a', contextId: 'c', metadata: {}, authContext: undefined };
const signIn = 'oauth_sign_in';
if (isAuth) await play([{ toolCalls: [{ name: signIn }] }]);
const listed = (await tools.getTools(context)).filter(({ function: { name } }) => name !== signIn);

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
await play(steps);
await tools.close();

/** What a form requires and has no default for. */
function answerTo(data: unknown): object {
  const schema: unknown = typeof data === 'object' && data ? Reflect.get(data, 'requestedSchema') : undefined;
  const required: unknown = typeof schema === 'object' && schema ? Reflect.get(schema, 'required') : undefined;
  const needed = Array.isArray(required) ? required : [];
  const all = Object.entries(argumentsFor(schema)).filter(([name]) => needed.includes(name));
  return { action: 'accept', content: Object.fromEntries(all) };
}

/** A turn in which the model makes these calls, with what the server asks answered. */
async function play(steps: readonly { readonly toolCalls: readonly Call[] }[]): Promise<void> {
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
      return;
    }
    const answers: Record<string, object | string> = {};
    for (const { id, kind, data } of questions) answers[id] = kind === 'auth' ? await visit(data) : answerTo(data);
    turn = AgentLoop.resume(turn.taskId, config, { answers });
  }
}

/** Goes where the user is sent, and returns the address at the end. */
async function visit(data: unknown): Promise<string> {
  const address: unknown = typeof data === 'object' && data ? Reflect.get(data, 'url') : undefined;
  const { headers } = await fetch(String(address), { redirect: 'manual' });
  return headers.get('location') ?? '';
}

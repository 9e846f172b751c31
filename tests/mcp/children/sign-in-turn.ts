// Runs a turn whose sub-agent has to sign in to an MCP server; with an answer it resumes that turn, and runs another one. Both agents share a budget. Says how each turn stands.
import { agent, agentTools, budget } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { fileAuthStore, mcpTools } from 'millrace/mcp';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';

const [url = '', path = '', folder = '', callback] = process.argv.slice(2);

const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };
/** Calls a tool, and says what it gave. */
const calling = (name: string, args: object) =>
  Array<ScriptedLLMStep>(4).fill(({ messages }) => {
    const last = messages.at(-1);
    if (last?.role === 'tool') return { text: `It gave ${JSON.stringify(last.content)}`, usage };
    const added = last?.content === 'Add.';
    return { toolCalls: [added ? { name: 'it__add', arguments: { a: 1, b: 2 } } : { name, arguments: args }], usage };
  });

async function main(): Promise<void> {
  const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store: fileAuthStore(folder) };
  const tools = mcpTools({ servers: { it: { url, auth } } });
  const spent = budget({ maxTokens: 10_000 });
  const worker = agent({
    id: 'worker',
    name: 'worker',
    provider: scriptedLLM(calling('it__oauth_sign_in', {})),
    toolProviders: [tools],
    extensions: [spent.extension()],
  });
  const boss = agent({
    id: 'boss',
    name: 'boss',
    provider: scriptedLLM(calling('worker', { message: 'go' })),
    toolProviders: [agentTools([worker]), tools],
    taskStateStore: new LmdbStateStore({ path }),
    extensions: [spent.extension()],
    leaseMs: 1_000,
  });
  const turn =
    callback === undefined
      ? boss.startTurn('go', { taskId: 't' })
      : boss.resume('t', { answers: JSON.parse(callback), onBusy: 'wait' });
  const { status, questions, text, usage: total } = await turn.result();
  process.send?.({ status, questions, text, total, spent: spent.used.totalTokens });
  if (callback === undefined) return void setInterval(() => {}, 1_000);
  process.send?.(await boss.run('Add.').then((ended) => ({ text: ended.text })));
  await tools.close();
  process.disconnect();
}

void main();

// Runs the turn `top`, whose agent calls agents below it, `depth` deep; the deepest one takes five steps. Each step kills the process at its first
// attempt, or with `mode` `stuck` at each. Prints how the turn ended.
import { type Agent, agent, agentTools, type ToolCall, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', depth = '1', mode = 'climbs'] = process.argv.slice(2);
const steps = 5;
const asks = (name: string, args: object) => {
  const call: ToolCall = { id: `${name}-1`, type: 'function', function: { name, arguments: JSON.stringify(args) } };
  return { message: { role: 'assistant' as const, content: null, toolCalls: [call] } };
};
const step = tool({
  name: 'step',
  description: 'Takes a step.',
  parameters: { type: 'object' },
  idempotent: true,
  execute: (_, { attempt }) => {
    if (attempt === 1 || mode === 'stuck') process.kill(process.pid, 'SIGKILL');
    return 'taken';
  },
});
let below: Agent = agent({
  id: 'level-0',
  tools: [step],
  maxResumes: 2,
  provider: {
    async call({ messages }) {
      const taken = messages.filter(({ role }) => role === 'tool').length;
      return taken < steps ? asks('step', {}) : { message: { role: 'assistant', content: 'at the top' } };
    },
  },
});
for (let level = 1; level <= Number(depth); level++) {
  const { id } = below;
  below = agent({
    id: `level-${level}`,
    toolProviders: [agentTools([below])],
    maxResumes: 2,
    leaseMs: 100,
    ...(level === Number(depth) && { taskStateStore: new LmdbStateStore({ path }) }),
    provider: {
      async call({ messages }) {
        const last = messages.at(-1);
        if (last?.role === 'user') return asks(id, { message: 'Climb.' });
        return { message: { role: 'assistant', content: String(last?.content) } };
      },
    },
  });
}
const turn = below.startTurn('Climb.', { taskId: 'top' });
const ended = await turn.result().then(({ text }) => text, String);
process.send?.(ended);
process.disconnect?.();

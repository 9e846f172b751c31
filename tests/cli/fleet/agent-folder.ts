import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

interface Line {
  readonly what: string;
  readonly taskId: string;
  readonly callId: string;
  readonly pid: number;
  readonly user: string;
}

/**
 * A folder with an agent that does what it is asked: the names of tools, one after the other. Tools write a line to a ledger, and so does the model
 * call `think`, for the task `thoughts`. That call and the tool `held` wait for a file of their task, which `go` makes.
 */
export class FleetFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'millrace-fleet-'));
  readonly agent = join(this.path, 'agent.mjs');
  readonly #ledger = join(this.path, 'ledger');

  constructor() {
    writeFileSync(this.#ledger, '');
    writeFileSync(this.agent, agentModule(this.path));
  }

  /** What ran for a task, in order. */
  lines(taskId: string): readonly Line[] {
    return readFileSync(this.#ledger, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [what = '', of = '', callId = '', pid = '', user = ''] = line.split(' ');
        return { what, taskId: of, callId, pid: Number(pid), user };
      })
      .filter((line) => line.taskId === taskId);
  }

  go(taskId: string): void {
    writeFileSync(join(this.path, `go-${taskId}`), '');
  }

  mend(): void {
    writeFileSync(join(this.path, 'mended'), '');
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

function agentModule(folder: string): string {
  const millrace = pathToFileURL(fileURLToPath(new URL('../../../dist/index.js', import.meta.url))).href;
  return `
import { appendFileSync, existsSync } from 'node:fs';
import { agent, tool } from ${JSON.stringify(millrace)};
const folder = ${JSON.stringify(folder)};
const parameters = { type: 'object', properties: {} };
const note = (what, { taskId, callId = '-', authContext }) =>
  appendFileSync(folder + '/ledger', [what, taskId, callId, process.pid, authContext?.user ?? '-'].join(' ') + '\\n');
const released = async (id, signal) => {
  while (!existsSync(folder + '/go-' + id) && !signal?.aborted) await new Promise((resolve) => setTimeout(resolve, 20));
};
const make = (name, more) => tool({ name, description: name, parameters, onInDoubt: 'fail', execute: (_, context) => { note(name, context); return name; }, ...more });
const tools = [
  make('quick'),
  make('pay', { needsApproval: true }),
  make('held', { execute: async (_, context) => { note('held', context); await released(context.taskId, context.signal); return 'held'; } }),
];
const provider = {
  call: async ({ messages, signal }) => {
    const words = String(messages.find(({ role }) => role === 'user').content).split(' ');
    const [name, ...rest] = words.slice(messages.filter(({ role }) => role === 'tool').length);
    if (name === 'fail' && !existsSync(folder + '/mended')) throw new Error('the model is broken');
    if (name === 'think') {
      note('think', { taskId: 'thoughts' });
      await released('thoughts', signal);
    }
    if (name === undefined || name === 'think' || name === 'fail') return { message: { role: 'assistant', content: 'All done.' }, finishReason: 'stop' };
    const toolCalls = [{ id: name + rest.length, type: 'function', function: { name, arguments: '{}' } }];
    return { message: { role: 'assistant', content: null, toolCalls }, finishReason: 'tool_calls' };
  },
};
export default agent({ id: 'ada', provider, tools });
`;
}

import { readFileSync } from 'node:fs';
import { systemClock } from '../../core/contracts/index.ts';
import { pause } from '../../core/streams/index.ts';
import { appendPrivateSync } from '../../private-files.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import { calculateTool } from '../tools/calculate.ts';
import { currentTimeTool } from '../tools/current-time.ts';
import { listFilesTool, readFileTool, searchFilesTool } from '../tools/file-tools.ts';
import { Workspace } from '../tools/workspace.ts';

/** The environment variable that names the file of the ledger. */
export const ledgerVariable = 'MILLRACE_DEMO_LEDGER';

/** So long that there is a middle to be killed in. */
const slowMs = 1_500;

/** Those that the demo is killed in, by name. */
export const slowTools: ReadonlySet<string> = new Set(['search_files', 'list_files', 'send_invitation']);

/**
 * The tools of the demo: those that the command has anyway, and one that is not safe to repeat. Each writes into a ledger when it
 * begins and when it is done; those of {@link slowTools} wait for one and a half seconds in between.
 */
export function demoTools(root: string, ledger: string): readonly Tool[] {
  const workspace = new Workspace({ root });
  const tools: readonly Tool[] = [
    calculateTool(),
    currentTimeTool(),
    searchFilesTool(workspace),
    listFilesTool(workspace),
    readFileTool(workspace),
    sendInvitation(),
  ];
  return tools.map((each) => watched(each, ledger));
}

/** Stands for what nobody wants twice. What it sends goes nowhere but into the ledger. */
function sendInvitation(): Tool {
  return tool({
    name: 'send_invitation',
    description: 'Sends an invitation by email.',
    parameters: {
      type: 'object',
      properties: { email: { type: 'string', description: 'The address.' } },
      required: ['email'],
    },
    onInDoubt: 'fail',
    execute: ({ email }) => `sent an invitation to ${String(email)}`,
  });
}

function watched(inner: Tool, ledger: string): Tool {
  const { name } = inner.definition.function;
  return {
    ...inner,
    async execute(args, context) {
      const entry = { tool: name, callId: context.callId, pid: process.pid };
      note(ledger, { ...entry, what: 'began' });
      if (slowTools.has(name)) {
        await pause(slowMs, systemClock, context.signal);
        context.signal.throwIfAborted();
      }
      const result = await inner.execute(args, context);
      note(ledger, { ...entry, what: 'finished' });
      return result;
    },
  };
}

/** A line of the ledger: a tool began to run, or did what it does. */
interface LedgerEntry {
  readonly tool: string;
  readonly callId: string;
  /** Of the process that it ran in. */
  readonly pid: number;
  readonly what: 'began' | 'finished';
}

/** Adds a line, which is in the file when this returns. */
export function note(file: string, entry: LedgerEntry): void {
  appendPrivateSync(file, `${JSON.stringify(entry)}\n`);
}

/** What stands in the file, in order. */
export function readLedger(file: string): readonly LedgerEntry[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line): LedgerEntry => JSON.parse(line));
}

/** How a call fared in one process. */
export type Fate = 'not run' | 'cut off' | 'finished';

/** A call, in the killed process and in the one that went on. */
export interface LedgerRow {
  readonly tool: string;
  readonly callId: string;
  readonly before: Fate;
  readonly after: Fate;
}

/** The calls of a ledger in the order in which they first began. `killed` is the process that was killed. */
export function ledgerRows(entries: readonly LedgerEntry[], killed: number): readonly LedgerRow[] {
  const calls = new Map(entries.map((entry) => [entry.callId, entry.tool]));
  return [...calls].map(([callId, tool]) => {
    const own = entries.filter((entry) => entry.callId === callId);
    return {
      tool,
      callId,
      before: fateOf(own.filter(({ pid }) => pid === killed)),
      after: fateOf(own.filter(({ pid }) => pid !== killed)),
    };
  });
}

function fateOf(entries: readonly LedgerEntry[]): Fate {
  if (entries.length === 0) return 'not run';
  return entries.some(({ what }) => what === 'finished') ? 'finished' : 'cut off';
}

/** What the two fates of a call come to, in words. */
export function verdictOf({ before, after }: LedgerRow): string {
  if (before === 'finished') return after === 'not run' ? 'recorded, so not repeated' : 'ran twice';
  if (before === 'not run') return 'ran after the kill';
  return after === 'not run' ? 'unsafe to repeat: not run' : 'safe to repeat: run again';
}

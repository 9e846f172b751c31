import { setTimeout as sleep } from 'node:timers/promises';
import { type Tool, tool } from '../../tools/tool.ts';
import { calculateTool } from '../tools/calculate.ts';
import { currentTimeTool } from '../tools/current-time.ts';
import { listFilesTool } from '../tools/list-files.ts';
import { readFileTool } from '../tools/read-file.ts';
import { searchFilesTool } from '../tools/search-files.ts';
import { Workspace } from '../tools/workspace.ts';
import { note } from './ledger.ts';

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
      if (slowTools.has(name)) await sleep(slowMs, undefined, { signal: context.signal });
      const result = await inner.execute(args, context);
      note(ledger, { ...entry, what: 'finished' });
      return result;
    },
  };
}

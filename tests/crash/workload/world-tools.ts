import { setTimeout as sleep } from 'node:timers/promises';
import { LocalToolProvider, type ToolContext, type ToolPolicy, type ToolProvider, tool } from 'millrace';
import type { OnInDoubt, Reconciled } from 'millrace/types';
import type { Life } from './life.ts';
import { type Policy, type ToolName, tools } from './plan.ts';
import type { Running } from './running.ts';
import type { World } from './world.ts';

export interface Actor {
  readonly life: Life;
  readonly world: World;
  /** Names the process in the ledger. */
  readonly pid: number;
  readonly running?: Running;
}

let executions = 0;

/** A long call waits in parts, so that one whose process was stopped does not end as soon as that wakes up. Milliseconds. */
const partMs = 20;

/** Tools that note in the world when they start and what they did. Each execution answers something that no other does. */
export function worldTools(actor: Actor): ToolProvider {
  const names: readonly ToolName[] = ['pay', 'wire', 'put', 'look', 'book', 'guess', 'breaks', 'sign'];
  return new LocalToolProvider(
    names.map((name) =>
      tool({
        name,
        description: `Does ${name}.`,
        parameters: { type: 'object', properties: { ms: { type: 'number' } }, required: ['ms'] },
        ...policyOf(name, actor.world),
        execute: ({ ms }, context) => act(actor, name, { ms, context }),
      }),
    ),
  );
}

async function act(
  { life, world, pid, running }: Actor,
  name: ToolName,
  { ms, context }: { readonly ms: number; readonly context: ToolContext },
): Promise<string> {
  const { taskId: task, callId, attempt, idempotencyKey: key } = context;
  // Without a break where it lives on: a tool that has been called starts.
  const entered = life.reach('tool:entered');
  if (entered) await entered;
  const id = `${pid}.${++executions}`;
  world.note({ type: 'start', id, task, callId, key, tool: name, attempt, pid, at: Date.now() });
  const over = running?.begin({ task, name: `call ${callId}`, isStopped: () => context.signal.aborted });
  try {
    await life.reach('tool:started');
    for (let leftMs = ms; leftMs > 0; leftMs -= partMs) await sleep(Math.min(leftMs, partMs));
    await life.reach('tool:working');
    const content = `${name} by ${id}`;
    world.note({ type: 'end', id, task, key, content });
    await life.reach('tool:done');
    if ('throws' in tools[name]) throw new Error(content);
    return content;
  } finally {
    over?.();
  }
}

function policyOf(name: ToolName, world: World): Omit<ToolPolicy, 'acceptsRaw'> {
  const { policy, ...flags } = { throws: false, ...tools[name] };
  const { throws, ...known } = flags;
  return { ...known, onInDoubt: throws ? 'fail' : onInDoubt(policy, world) };
}

function onInDoubt(policy: Policy, world: World): OnInDoubt {
  switch (policy) {
    case 'fail':
    case 'retry':
      return policy;
    case 'reconcile':
      return async (key) => effectOf(world, key) ?? { outcome: 'not-applied' };
    case 'guess':
      return async (key) => {
        if (key.charCodeAt(key.length - 1) % 4 === 0) throw new Error('the bank is closed');
        return effectOf(world, key) ?? { outcome: 'unknown' };
      };
  }
}

function effectOf(world: World, key: string): Reconciled | undefined {
  for (const deed of world.deeds()) {
    if (deed.type === 'end' && deed.key === key) return { outcome: 'applied', content: deed.content };
  }
  return undefined;
}

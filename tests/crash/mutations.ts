import { type Mutation, ofLmdb, ofRedis, treesOfLmdb } from './store-mutations.ts';

const batch = 'src/core/tool-call/tool-batch.ts';
const line = 'src/core/ownership/journal-line.ts';

/** Bugs of the engine, which no store can hide. They are planted over LMDB. */
const ofEngine: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'no intent barrier: a tool starts before its intent is durable',
    mode: 'random',
    patches: [
      {
        file: batch,
        from: `this.#owner.next({ type: 'commit', steps, after, barrier: true, durable });`,
        to: `this.#owner.next({ type: 'commit', steps, after, barrier: true }); durable();`,
      },
      {
        file: 'src/core/turn/iteration.ts',
        from: `return whenDurable(signal, () => this.execute(signal.after).runInto(this));`,
        to: `this.to.next(signal); this.execute(signal.after).runInto(this); return undefined as never;`,
      },
    ],
  },
  {
    name: 'a draft is taken too late: calls start, then their intents are handed over',
    mode: 'random',
    patches: [
      {
        file: batch,
        from: `this.#owner.next({ type: 'commit', steps, after, barrier: true, durable });`,
        to: `durable(); this.#owner.next({ type: 'commit', steps, after, barrier: true });`,
      },
      {
        file: 'src/core/turn/iteration.ts',
        from: `return whenDurable(signal, () => this.execute(signal.after).runInto(this));`,
        to: `this.execute(signal.after).runInto(this); return signal;`,
      },
    ],
  },
  {
    name: 'an intent is shown before it is durable',
    mode: 'boundary',
    patches: [
      {
        file: line,
        from: 'const answer = append(signals, target);',
        to: 'for (const each of signals) if (isEarly(each) && !early.has(each)) { early.add(each); this.to.next(each); } const answer = append(signals, target);',
      },
      { file: line, from: 'this.to.next(commit);', to: 'if (!early.has(commit)) this.to.next(commit);' },
      {
        file: line,
        from: 'const firstRetryMs = 50;',
        to: `const firstRetryMs = 50; const early = new WeakSet<Signal>(); const isEarly = (each: Signal) => each.type === 'commit' && each.steps.some(({ record }) => record.type === 'tool.intent');`,
      },
    ],
  },
  {
    name: 'a layer swallows the teardown: a lost lease stops nothing that runs',
    mode: 'pause',
    patches: [
      {
        file: 'src/core/ownership/lease.ts',
        from: 'protected override finalize(): void {\n    this.#cancel?.();',
        to: 'override close(): void {\n    this.closed = true;\n  }\n\n  protected override finalize(): void {\n    this.#cancel?.();',
      },
    ],
  },
  {
    name: 'no waiting: records count as durable when they are sent',
    mode: 'random',
    patches: [
      {
        file: line,
        from: 'answer.then(stored, (error: unknown) => this.#notStored(error, signals, target));',
        to: '{ answer.catch((error: unknown) => this.#notStored(error, signals, target)); queueMicrotask(stored); }',
      },
    ],
  },
  {
    name: 'finished tools run again',
    mode: 'boundary',
    patches: [
      {
        file: 'src/core/tool-call/tool-plan.ts',
        from: 'if (!result && !question) (intent ? started : others).push(index);',
        to: 'if (!question) (intent ? started : others).push(index);',
      },
      {
        file: 'src/core/tool-call/call-pipe.ts',
        from: 'const isOver = !pending || pending.result !== undefined || pending.question !== undefined;',
        to: 'const isOver = !pending || pending.question !== undefined;',
      },
    ],
  },
  {
    name: 'a result is forgotten: it is shown, but not written',
    mode: 'boundary',
    patches: [
      {
        file: line,
        from: `if (signal.type !== 'commit') continue;`,
        to: `if (signal.type !== 'commit' || signal.steps.every(({ record }) => record.type === 'tool.result')) continue;`,
      },
    ],
  },
  {
    name: 'every call in doubt runs again',
    mode: 'random',
    patches: [
      {
        file: 'src/core/tool-call/doubt.ts',
        from: `return onInDoubt === 'retry' && repeatable ? 'run' : unknownOutcome(pending);`,
        to: `return 'run';`,
      },
    ],
  },
  {
    name: 'an unknown outcome passes for a result',
    mode: 'random',
    patches: [
      {
        file: 'src/core/tool-call/doubt.ts',
        from: `if (answer.outcome === 'unknown') return unknownOutcome(pending);`,
        to: `if (answer.outcome === 'unknown') return { type: 'tool.result', callId: pending.callId, content: 'done', success: true, durationMs: 0 };`,
      },
    ],
  },
  {
    name: 'the idempotency key changes with the attempt',
    mode: 'random',
    patches: [
      {
        file: 'src/core/tool-call/call-context.ts',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a source.
        from: 'this.idempotencyKey = turn.retried?.keys[callId] ?? `${turn.taskId}:${callId}`;',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a source.
        to: 'this.idempotencyKey = `${turn.taskId}:${callId}:${intent?.attempt}`;',
      },
    ],
  },
  {
    name: 'attempts of the model call do not count on',
    mode: 'random',
    patches: [
      {
        file: 'src/core/turn/next-step.ts',
        from: 'return call(deps, state, state.iteration, state.attempt + 1);',
        to: 'return call(deps, state, state.iteration, 1);',
      },
    ],
  },
  {
    name: 'who wakes up late does not look at its lease',
    mode: 'pause',
    patches: [
      {
        file: batch,
        from: 'if (leaseHold && !leaseHold.isSure && !this.#stopping) break;',
        to: '',
      },
    ],
  },
];

const children = 'src/core/ownership/child-turns.ts';
const batches = 'src/core/tool-call/running-tool.ts';

/** Bugs of turns inside turns. */
const ofTrees: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'the right to a child turn does not end with the lease above',
    mode: 'tree-long',
    patches: [
      { file: 'src/core/ownership/lease.ts', from: ' && this.#above?.isSure !== false;', to: ';' },
      { file: 'src/core/ownership/lease.ts', from: 'if (above && !above.isSure)', to: 'if (above && false)' },
    ],
  },
  {
    name: 'the lease of a parent is given back before its child turns are left',
    mode: 'tree-outage',
    patches: [
      {
        file: 'src/core/ownership/lease.ts',
        from: '() => this.to.error(unrenewed(storeDeadlineMs)));',
        to: '() => { void this.#deps.store.release(this.#deps.lease); setTimeout(() => this.to.error(unrenewed(storeDeadlineMs)), 5); });',
      },
    ],
  },
  {
    name: 'what is left counts as cancelled',
    mode: 'tree-outage',
    patches: [
      {
        file: children,
        from: `return AgentLoopError.isInstance(reason) && reason.code === 'LEFT';`,
        to: 'return reason === isLeft;',
      },
    ],
  },
  {
    name: 'a child turn that is lost is a failed result',
    mode: 'tree-outage',
    patches: [
      {
        file: batches,
        from: 'if (TurnLost.isInstance(error)) this.#onTurnLost(error);',
        to: 'if (!error) this.#onTurnLost(error);',
      },
    ],
  },
  {
    name: 'a watcher never asks again',
    mode: 'tree-deep',
    patches: [
      {
        file: 'src/core/turn/watch-turn.ts',
        from: 'poll.set(Math.min(ms, longestPollMs)',
        to: 'if (to.closed) poll.set(Math.min(ms, longestPollMs)',
      },
    ],
  },
  {
    name: 'child turns are cancelled after their parent',
    mode: 'tree-cancel',
    patches: [
      { file: 'src/tasks/task-commands.ts', from: '    await before?.(state, lease);\n', to: '' },
      {
        file: 'src/tasks/task-commands.ts',
        from: `{ status: taskState(commit.after), barrier: true });`,
        to: `{ status: taskState(commit.after), barrier: true }); await before?.(state, lease);`,
      },
    ],
  },
  {
    name: 'the result of a child turn is recorded without its usage',
    mode: 'tree-deep',
    patches: [
      {
        file: 'src/core/tool-call/call-context.ts',
        from: 'const below = this.parent?.usageBy ?? [];',
        to: 'const below = [];',
      },
    ],
  },
  {
    name: 'a child turn that ended in another process is recorded without its usage',
    mode: 'tree-short',
    patches: [{ file: children, from: 'this.#result = usageBy;', to: 'void usageBy;' }],
  },
  {
    name: 'what a child turn used counts twice',
    mode: 'tree-asks',
    patches: [
      {
        file: children,
        from: 'restOf(this.#result ?? this.#child?.usageBy ?? [], recorded);',
        to: '(this.#result ?? this.#child?.usageBy ?? []);',
      },
    ],
  },
  {
    name: 'another agent takes the turn in an append of its own',
    mode: 'team-hand-off',
    patches: [
      { file: batch, from: 'const change = agentChange(this.#deps, draft.after);', to: 'const change = undefined;' },
      {
        file: line,
        from: 'else if (this.#isAsync && !signal.barrier)',
        to: 'else if (this.#isAsync && !signal.barrier && !signal.after.changes.agent)',
      },
    ],
  },
  {
    name: 'the current agent is not kept with the conversation',
    mode: 'team-hand-off',
    patches: [
      {
        file: 'src/agent/open-turns.ts',
        from: "...(segment.reason === 'hand_off' && { agentId })",
        to: "...(segment.reason === '' && { agentId })",
      },
    ],
  },
  {
    name: 'a message to a remote agent has another id when it is sent again',
    mode: 'tree-remote',
    patches: [
      {
        file: 'src/a2a/client/remote-tools.ts',
        from: '{ idempotencyKey, taskId: turnId, signal, traceContext, arguments: args }: ToolContext,\n): Promise<RemoteReference> {\n  const messageId = messageIdOf(idempotencyKey);',
        to: '{ idempotencyKey, taskId: turnId, signal, traceContext, arguments: args, attempt }: ToolContext,\n): Promise<RemoteReference> {\n  const messageId = messageIdOf(attempt > 1 ? idempotencyKey + attempt : idempotencyKey);',
      },
    ],
  },
  {
    name: 'a remote agent that is away while a message is sent counts as failed',
    mode: 'tree-remote',
    patches: [
      {
        file: 'src/a2a/client/remote-tools.ts',
        from: 'if (!isAway(error)) return false;',
        to: 'void isAway; return false;',
      },
    ],
  },
  {
    name: 'a process that resumes while a remote agent is away fails the turn',
    mode: 'tree-remote',
    patches: [
      {
        file: 'src/a2a/client/remote-task.ts',
        from: 'if (!isPassing(error) || clock.now() - awaySince >= silenceMs) throw error;',
        to: 'await connection.follow(taskId, options); if (!isPassing(error) || clock.now() - awaySince >= silenceMs) throw error;',
      },
    ],
  },
  {
    name: 'steering goes to the first agent',
    mode: 'team-hand-off',
    patches: [
      {
        file: 'src/core/turn/segment.ts',
        from: 'deps.segment = segment;',
        to: `deps.segment = segment; if (this.#state.segment.after > 0) Reflect.set(deps, 'inbox', Object.assign(Reflect.construct(deps.inbox.constructor, []), { scope: deps.inbox.scope, drain: deps.inbox.drain }));`,
      },
    ],
  },
  {
    name: 'a hand-over is repeated',
    mode: 'team-hand-off',
    patches: [
      {
        file: 'src/core/journal/fold.ts',
        from: 'draft.changes = { ...noChanges, settings, data, decided: others, ...kept };',
        // Not for ever: a journal without an end fills the disk before anybody looks at it.
        to: 'draft.changes = { ...noChanges, settings, data, decided: others, ...kept, ...(draft.agentChanges < 4 && { agent: draft.changes.agent }) };',
      },
    ],
  },
];

export const mutations: readonly Mutation[] = [
  ...[...ofEngine, ...ofLmdb, ...ofTrees, ...treesOfLmdb].map((mutation) => ({ ...mutation, store: 'lmdb' as const })),
  ...ofRedis.map((mutation) => ({ ...mutation, store: 'redis' as const })),
];

import type { StoreKind } from './parent/campaign.ts';
import type { Patch } from './parent/child-bundle.ts';
import type { Mode } from './parent/modes.ts';

/** A bug that is planted in the engine or a store: the harness has to find it. */
export interface Mutation {
  readonly name: string;
  readonly store: StoreKind;
  /** Where it is looked for. */
  readonly mode: Mode;
  readonly patches: readonly [Patch, ...Patch[]];
}

const batch = 'src/core/tool-call/tool-batch.ts';
const line = 'src/core/ownership/journal-line.ts';
const lmdb = 'src/stores/lmdb/lmdb-state-store.ts';
const lua = 'src/stores/redis/lua';

/** Bugs of the engine, which no store can hide. They are planted over LMDB. */
const ofEngine: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'no intent barrier: a tool starts before its intent is durable',
    mode: 'random',
    patches: [
      {
        file: batch,
        from: `this.#owner.give({ type: 'commit', steps, after, barrier: true, durable });`,
        to: `this.#owner.give({ type: 'commit', steps, after, barrier: true }); durable();`,
      },
      {
        file: 'src/core/turn/model-step.ts',
        from: `this.#owner.pass(draft.finish(true, runsTools ? () => this.#runTools(draft.after) : undefined));`,
        to: `this.#owner.pass(draft.finish(true)); if (runsTools) this.#runTools(draft.after);`,
      },
    ],
  },
  {
    name: 'no waiting: records count as durable when they are sent',
    mode: 'random',
    patches: [
      {
        file: line,
        from: 'answer.then(acknowledged, (error: unknown) => this.#fail(held, send, error));',
        to: '{ answer.catch((error: unknown) => this.#fail(held, send, error)); queueMicrotask(acknowledged); }',
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
        file: batch,
        from: 'if (!pending || pending.result || pending.question) {',
        to: 'if (!pending || pending.question) {',
      },
    ],
  },
  {
    name: 'a result is forgotten: it is shown, but not written',
    mode: 'boundary',
    patches: [
      {
        file: line,
        from: 'if (target === undefined) return undefined;',
        to: `if (target === undefined || commit.steps.every(({ record }) => record.type === 'tool.result')) return undefined;`,
      },
    ],
  },
  {
    name: 'every call in doubt runs again',
    mode: 'random',
    patches: [
      {
        file: 'src/core/tool-call/tool-plan.ts',
        from: `return onInDoubt === 'retry' && (idempotent || readOnly) ? 'run' : unknownOutcome(pending);`,
        to: `return 'run';`,
      },
    ],
  },
  {
    name: 'an unknown outcome passes for a result',
    mode: 'random',
    patches: [
      {
        file: 'src/core/tool-call/tool-plan.ts',
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
        to: 'this.idempotencyKey = `${turn.taskId}:${callId}:${options.started.intent?.attempt}`;',
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
        from: 'return this.#deps.leaseHold === undefined || this.#deps.leaseHold.isSure || this.#stopping;',
        to: 'return true;',
      },
    ],
  },
];

const children = 'src/core/ownership/child-turns.ts';
const opening = 'src/core/turn/open-turn.ts';
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
        from: 'if (TurnLost.isInstance(error)) this.#lose(error);',
        to: 'if (!error) this.#lose(error);',
      },
    ],
  },
  {
    name: 'a watcher never asks again',
    mode: 'tree-deep',
    patches: [
      {
        file: 'src/core/turn/watch-turn.ts',
        from: 'if (!to.closed) cancelPoll = deadline.clock',
        to: 'if (to.closed) cancelPoll = deadline.clock',
      },
    ],
  },
  {
    name: 'child turns are cancelled after their parent',
    mode: 'tree-cancel',
    patches: [
      { file: 'src/core/turn/task-commands.ts', from: '    await before?.(state, lease);\n', to: '' },
      {
        file: 'src/core/turn/task-commands.ts',
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
        from: 'const below = this.#parent?.usageBy ?? [];',
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
        from: 'restOf(this.#result ?? this.#child?.usageBy ?? [], this.#recorded);',
        to: '(this.#result ?? this.#child?.usageBy ?? []);',
      },
    ],
  },
  {
    name: 'another agent takes the turn in an append of its own',
    mode: 'team-hand-off',
    patches: [
      { file: batch, from: 'const follows = end ?? agentChange(this.#deps, draft.after);', to: 'const follows = end;' },
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
        from: 'return segmentDeps(deps, this.#state);',
        to: 'return { ...segmentDeps(deps, this.#state), ...(this.#state.segment.after > 0 && { inbox: Reflect.construct(deps.inbox.constructor, []) }) };',
      },
    ],
  },
  {
    name: 'a hand-over is repeated',
    mode: 'team-hand-off',
    patches: [
      {
        file: 'src/core/journal/fold.ts',
        from: 'draft.changes = { ...noChanges, data, decided: others };',
        to: 'draft.changes = { ...draft.changes, data, decided: others };',
      },
    ],
  },
];

const ofLmdb: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'no fence: who was overtaken may append and renew',
    mode: 'pause',
    patches: [
      {
        file: lmdb,
        from: 'if (!isOwnedBy(before, lease)) throw fenced(lease);',
        to: '',
      },
      { file: lmdb, from: 'if (!isOwnedBy(head, lease)) throw fenced(lease);', to: '' },
    ],
  },
  {
    name: 'no duplicate check: an append that is sent again is another one',
    mode: 'random',
    patches: [
      {
        file: 'src/stores/store-rules.ts',
        from: 'if (first <= end.seq && first > lease.seq && first + records.length - 1 <= end.seq) return false;',
        to: 'void first;',
      },
    ],
  },
  {
    name: 'the lease is taken without a look whether it lasts',
    mode: 'race',
    patches: [
      {
        file: lmdb,
        from: 'if (!takesAtOnce(taskId, head.under, under)) {',
        to: 'takesAtOnce(taskId, head.under, under); if (!head) {',
      },
    ],
  },
  {
    name: 'all owners have the same epoch',
    mode: 'random',
    patches: [
      {
        file: 'src/stores/lmdb/task-table.ts',
        from: 'return meta.epoch + 1;\n  }\n\n  nextBorn',
        to: 'return 1;\n  }\n\n  nextBorn',
      },
    ],
  },
];

const treesOfLmdb: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'a newer owner of the parent does not take its child turns',
    mode: 'tree-long',
    patches: [
      {
        file: lmdb,
        from: 'if (!takesAtOnce(taskId, head.under, under)) {',
        to: 'takesAtOnce(taskId, head.under, under); if (head) {',
      },
    ],
  },
  {
    name: 'a stale `under` is allowed: an older owner of the parent takes a child turn back',
    mode: 'tree-outage',
    patches: [
      {
        file: 'src/stores/store-rules.ts',
        from: 'if (under.epoch < before.epoch) throw olderParent(taskId, under, before.epoch);',
        to: 'void olderParent;',
      },
    ],
  },
  {
    name: 'who looks for turns takes child turns too',
    mode: 'tree-deep',
    patches: [
      { file: 'src/stores/lmdb/task-table.ts', from: '(roots && parent !== undefined) || ', to: '' },
      {
        file: opening,
        from: 'if (parent && parent.taskId !== options.under?.taskId) return notByItself(options, taskId, parent);',
        to: 'void notByItself;',
      },
    ],
  },
];

const ofRedis: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'no fence: who was overtaken may append and renew',
    mode: 'pause',
    patches: [
      {
        file: `${lua}/append-1.lua`,
        from: 'if head[3] ~= ARGV[1] or tonumber(head[2]) ~= epoch then return { FENCED } end',
        to: '',
      },
      {
        file: `${lua}/renew-1.lua`,
        from: 'if head[2] ~= ARGV[1] or head[1] ~= ARGV[2] then return { FENCED } end',
        to: '',
      },
    ],
  },
  {
    name: 'no duplicate check: an append that is sent again is another one',
    mode: 'random',
    patches: [
      {
        file: `${lua}/append-1.lua`,
        from: 'local applied = mine and math.min(count, seq + 1 - first) or 0',
        to: 'local applied = 0',
      },
    ],
  },
  {
    name: 'the lease is taken without a look whether it lasts',
    mode: 'race',
    patches: [
      {
        file: `${lua}/acquire-2.lua`,
        from: `if not newer and head[3] ~= '' and remaining > 0 then`,
        to: 'if false then',
      },
    ],
  },
  {
    name: 'a newer owner of the parent does not take its child turns',
    mode: 'tree-long',
    patches: [{ file: `${lua}/acquire-2.lua`, from: 'newer = mine > before', to: 'newer = false' }],
  },
  {
    name: 'a stale `under` is allowed: an older owner of the parent takes a child turn back',
    mode: 'tree-outage',
    patches: [{ file: `${lua}/acquire-2.lua`, from: 'if mine < before then return { FENCED, head[12] } end', to: '' }],
  },
];

export const mutations: readonly Mutation[] = [
  ...[...ofEngine, ...ofLmdb, ...ofTrees, ...treesOfLmdb].map((mutation) => ({ ...mutation, store: 'lmdb' as const })),
  ...ofRedis.map((mutation) => ({ ...mutation, store: 'redis' as const })),
];

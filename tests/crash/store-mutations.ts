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

const lmdb = 'src/stores/lmdb/lmdb-state-store.ts';
const lua = 'src/stores/redis/lua';

/** Bugs of the stores. */
export const ofLmdb: readonly Omit<Mutation, 'store'>[] = [
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

export const treesOfLmdb: readonly Omit<Mutation, 'store'>[] = [
  {
    name: 'the messages that a journal refers to are not returned',
    mode: 'tree-deep',
    patches: [
      {
        file: 'src/stores/messages/referred-messages.ts',
        from: 'isRange(part) ? Array.from',
        to: 'isRange(part) ? [] : isRange(part) ? Array.from',
      },
    ],
  },
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
        file: 'src/core/turn/open-turn.ts',
        from: 'if (parent && parent.taskId !== request.parent?.under?.taskId) return refuseChildTurn(options, taskId, parent);',
        to: 'void refuseChildTurn;',
      },
    ],
  },
];

export const ofRedis: readonly Omit<Mutation, 'store'>[] = [
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

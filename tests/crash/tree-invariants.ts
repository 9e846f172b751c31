import { foldRecords, type JournalRecord, type Stamped, textOf } from 'millrace';
import { isTerminal, messageOf, type TerminalRecord } from 'millrace/internals';
import { type Say, violationsOf } from './invariants.ts';
import type { Task } from './workload/order.ts';
import { earlierTalk } from './workload/plan.ts';
import { rootAgentOf, type TreeTurn, turnsOf, type Workload } from './workload/tree.ts';
import type { Deed } from './workload/world.ts';

/** All that is left of a tree: the journals of its turns, and what the world noted of them. */
export interface TreeRemains {
  readonly workload: Workload;
  readonly task: Task;
  /** By task. */
  readonly journals: ReadonlyMap<string, readonly JournalRecord[]>;
  readonly deeds: readonly Deed[];
  readonly paused: ReadonlySet<number>;
  /** What processes were told that the tree used. */
  readonly told: readonly number[];
  /** Whether it was cancelled. */
  readonly isCut: boolean;
}

type LeaseDeed = Extract<Deed, { type: 'lease' }>;

/** Between a look at the clock and the note of what was started then lie some instructions, and a machine that has other things to do. Milliseconds. */
const noteMs = 50;

/** What of the promises of durability a tree broke that has ended, a sentence each. */
export function treeViolations(remains: TreeRemains): readonly string[] {
  const { workload, task, deeds, paused, isCut } = remains;
  const broken: string[] = [];
  const say: Say = (invariant, detail) => broken.push(`${task.taskId}: ${invariant}: ${detail}`);
  const turns = turnsOf(workload, task);
  const known = new Set(turns.map(({ taskId }) => taskId));
  for (const deed of deeds) if (!known.has(deed.task)) say('every turn is planned', `turn ${deed.task} does something`);
  for (const turn of turns) {
    const { taskId, plan } = turn;
    const records = recordsOf(remains, taskId);
    if (records.length === 0 && isCut && turn.parent) continue;
    const own = deeds.filter((deed) => deed.task === taskId);
    const cut = isCut && records.at(-1)?.type === 'turn.canceled';
    broken.push(
      ...violationsOf({
        taskId,
        plan,
        records,
        deeds: own,
        paused,
        isCut: cut,
        isJoined: workload.team === 'parallel' && !turn.parent,
        answer: turn.isRelay ? remoteAnswer(remains, turn, turns) : undefined,
      }),
    );
    checkChild(remains, turn, say);
    checkOrderOfEnds(remains, turn, say);
    checkSpeakers(remains, turn, say);
    checkConversation(remains, turn, say);
    checkSteering(remains, turn, say);
    checkRight(remains, turn, say);
  }
  broken.push(...openBelowEnded(remains));
  checkLeases(remains, turns, say);
  if (!isCut) checkUsage(remains, turns, say);
  return broken;
}

/** What the remote task of a relay ended with. */
function remoteAnswer(remains: TreeRemains, relay: TreeTurn, turns: readonly TreeTurn[]): string {
  const remote = turns.find(({ parent }) => parent?.turn === relay);
  const end = endOf(recordsOf(remains, remote?.taskId ?? ''));
  return end?.type === 'turn.done' ? end.text : `no end of the remote task ${remote?.taskId}`;
}

/** Whether a turn runs at the server of a remote agent: nobody there knows the turn that called it. */
function isRemote({ parent }: TreeTurn): boolean {
  return parent?.turn.isRelay === true;
}

/** The open turns below ended ones: also while nothing has ended yet, there are none. */
export function openBelowEnded({
  workload,
  task,
  journals,
}: Pick<TreeRemains, 'workload' | 'task' | 'journals'>): readonly string[] {
  return turnsOf(workload, task).flatMap(({ taskId, parent }) => {
    const records = journals.get(taskId) ?? [];
    const above = endOf(journals.get(parent?.turn.taskId ?? '') ?? []);
    if (records.length === 0 || !above) return [];
    if (endOf(records)) return [];
    return [`${task.taskId}: no child turn is open below an ended one: ${taskId} is, ${above.type} stands above it`];
  });
}

function recordsOf({ journals }: TreeRemains, taskId: string): readonly JournalRecord[] {
  return journals.get(taskId) ?? [];
}

function endOf(records: readonly JournalRecord[]): Stamped<TerminalRecord> | undefined {
  const last = records.at(-1);
  return last && isTerminal(last) ? last : undefined;
}

/** Compares a child turn with the call that it answers. */
function checkChild(remains: TreeRemains, child: TreeTurn, say: Say): void {
  const { taskId, parent, agentId } = child;
  if (!parent || isRemote(child)) return;
  const { turn, callId } = parent;
  const records = recordsOf(remains, taskId);
  const [started] = records;
  const end = endOf(records);
  const above = recordsOf(remains, turn.taskId);
  const results = above.filter((record) => record.type === 'tool.result' && record.callId === callId);
  const [result] = results;
  const isLinked = started?.type === 'turn.started' && started.parent?.taskId === turn.taskId;
  if (!isLinked || started.agentId !== agentId) say('a child turn names its parent', JSON.stringify(started));
  if (end?.type === 'turn.canceled' && !remains.isCut)
    say('a child turn ends by itself or with a cancelled turn above it', `${taskId}: ${end.reason}`);
  if (results.length !== 1 && !remains.isCut)
    say('one result a call', `call ${callId} of ${turn.taskId} has ${results.length}`);
  if (result?.type !== 'tool.result') return;
  const content = textOf(result.content);
  const agrees = end?.type === 'turn.done' ? result.success && content === end.text : !result.success;
  if (!end || !agrees)
    say('the result of a child turn is its end', `${taskId}: "${content}" is recorded, it has ${JSON.stringify(end)}`);
  if (end && end.at > result.at && result.success) say('a child turn ends before its result is recorded', taskId);
}

/** Each agent takes the turn once, in the append of what it was handed over with, and each iteration is one agent's. */
function checkSpeakers(remains: TreeRemains, { taskId, agentId, speakers }: TreeTurn, say: Say): void {
  const records = recordsOf(remains, taskId);
  const changes = records.filter((record) => record.type === 'agent.changed');
  const expected = (speakers ?? []).filter((speaker, index, all) => speaker !== (all[index - 1] ?? agentId));
  const takers = changes.map((change) => (change.type === 'agent.changed' ? change.to : ''));
  if (takers.join() !== expected.join() && !remains.isCut)
    say('each agent takes the turn once', `${taskId}: ${takers.join()}, not ${expected.join()}`);
  for (const deed of remains.deeds) {
    if (deed.task !== taskId) continue;
    // Who was overtaken may have asked a model before it knew: with a conversation that others have continued.
    const asks = deed.type === 'model' && !remains.paused.has(deed.pid);
    if (asks && speakers && deed.agent !== speakers[deed.iteration - 1])
      say('an iteration is of the agent that has the turn', `${deed.iteration} of ${taskId} is ${deed.agent}'s`);
    // What caused it stands before it.
    const isApart = deed.type === 'changed' && deed.types[0] === 'agent.changed';
    if (isApart && taskId === remains.task.taskId) say('a hand-over is written with its cause', taskId);
  }
  const users = records.flatMap((record) => (record.type === 'turn.started' ? record.messages : []));
  if (
    users.filter(({ role, content }) => role === 'user' && /^\d+$/.test(textOf(content))).length >
    (speakers || !remains.workload.team ? 1 : 2)
  )
    say('a turn has one message of the user', taskId);
}

/** Whoever asks after a turn of a team finds its message once, and the agent that it was handed to. */
function checkConversation({ workload, deeds }: TreeRemains, { taskId, parent, speakers }: TreeTurn, say: Say): void {
  if (parent) return;
  for (const deed of deeds) {
    if (deed.type !== 'model' || deed.task !== taskId || deed.earlier === earlierTalk.length) continue;
    say('a turn continues its conversation', `a model call of ${taskId} has ${deed.earlier} messages of it`);
  }
  if (!workload.team) return;
  const expected = workload.team === 'hand-off' ? speakers?.at(-1) : rootAgentOf(workload);
  for (const deed of deeds) {
    if (deed.type !== 'current' || deed.task !== taskId) continue;
    if (deed.agent !== expected)
      say(
        'the current agent is kept with the conversation',
        `${deed.agent} answers next in ${taskId}, not ${expected}`,
      );
    if (deed.users !== 1) say('a conversation has the message of the user once', `${taskId} has ${deed.users}`);
  }
}

/**
 * What somebody told a turn is recorded once, where it had two model calls to come at least; from there on every model call has it, whichever
 * agent makes it.
 */
function checkSteering(remains: TreeRemains, { taskId }: TreeTurn, say: Say): void {
  const records = recordsOf(remains, taskId);
  const deeds = remains.deeds.filter(({ task }) => task === taskId);
  const calls = records.filter((record) => record.type === 'llm.start');
  const told = records.filter((record) => record.type === 'x.steer');
  for (const deed of deeds) {
    if (deed.type !== 'steered') continue;
    const times = told.filter((record) => 'command' in record && record.command === deed.command).length;
    const isDue = calls.filter(({ seq }) => seq > deed.seq).length >= 2;
    if (times > 1 || (isDue && times === 0)) say('a steering message is recorded once', `${taskId}: ${times} times`);
  }
  // Of an iteration that was called several times, the last call counts.
  const last = new Map(calls.map((call) => [call.type === 'llm.start' ? call.iteration : 0, call]));
  for (const [iteration, { seq }] of last) {
    const before = told.filter((record) => record.seq < seq).length;
    const isOfOwner = (deed: Deed) => deed.type === 'model' && !remains.paused.has(deed.pid);
    const call = deeds.findLast((deed) => isOfOwner(deed) && 'iteration' in deed && deed.iteration === iteration);
    if (call?.type === 'model' && call.told !== before)
      say('steering reaches who has the turn', `iteration ${iteration} of ${taskId} has ${call.told}, not ${before}`);
  }
}

/**
 * The end of a turn is written once those of its child turns are. The reply to an append can come late, to a process that was stopped: where it
 * does, the times of the records count.
 */
function checkOrderOfEnds(remains: TreeRemains, { taskId, parent }: TreeTurn, say: Say): void {
  const { deeds } = remains;
  const above = deeds.findIndex((deed) => deed.type === 'ending' && deed.task === parent?.turn.taskId);
  const own = deeds.findIndex((deed) => deed.type === 'ended' && deed.task === taskId);
  if (above < 0 || own <= above) return;
  const endOf = (task: string) => recordsOf(remains, task).findLast(isTerminal)?.at ?? Number.POSITIVE_INFINITY;
  if (endOf(taskId) >= endOf(parent?.turn.taskId ?? '')) say('a child turn ends before its parent', taskId);
}

/** Nothing starts in a turn once another process has taken it, or a turn above it, or once that has ended. */
function checkRight({ deeds, journals }: TreeRemains, turn: TreeTurn, say: Say): void {
  const { taskId } = turn;
  const starts = deeds.filter((deed) => deed.type === 'start' && deed.task === taskId);
  for (let above: TreeTurn | undefined = turn; above; above = isRemote(above) ? undefined : above.parent?.turn) {
    // In the order in which the store granted them: a process that stood still notes its lease late.
    const grants = deeds
      .filter((deed): deed is LeaseDeed => deed.type === 'lease' && deed.task === above?.taskId)
      .toSorted((one, other) => one.epoch - other.epoch);
    const end = endOf(journals.get(above.taskId) ?? []);
    for (const start of starts) {
      if (start.type !== 'start') continue;
      const owner = grants.findLast(({ at }) => at + noteMs < start.at);
      const since = grants.filter(({ at }) => at <= start.at + noteMs);
      if (owner && !since.slice(since.indexOf(owner)).some(({ pid }) => pid === start.pid))
        say(
          'nothing starts in or below a turn that another took',
          `call ${start.callId} of ${taskId} by ${start.pid}, ${start.at - owner.at} ms behind the lease of ${above.taskId} for ${owner.pid}`,
        );
      if (end && start.at > end.at + noteMs)
        say('nothing starts in or below a turn that has ended', `call ${start.callId} of ${taskId}`);
    }
  }
}

/** A child turn is taken under the lease of its parent, and given back before it. */
function checkLeases({ deeds }: TreeRemains, turns: readonly TreeTurn[], say: Say): void {
  for (const turn of turns) {
    const { taskId, parent } = turn;
    if (!parent || isRemote(turn)) continue;
    let newest = 0;
    const grants = deeds.filter((deed): deed is LeaseDeed => deed.type === 'lease' && deed.task === taskId);
    for (const { under, pid } of grants.toSorted((one, other) => one.epoch - other.epoch)) {
      if (under?.taskId !== parent.turn.taskId)
        say('a child turn is taken by the owner of its parent', `${taskId} by ${pid}, under ${JSON.stringify(under)}`);
      else if (under.epoch < newest)
        say('an older owner of the parent takes no child turn back', `${taskId} by ${pid}, under ${under.epoch}`);
      newest = Math.max(newest, under?.epoch ?? 0);
    }
    checkGivenBack({ deeds, grants, parentId: parent.turn.taskId }, say);
  }
}

interface GivenBack {
  readonly deeds: readonly Deed[];
  /** Of the child turn. */
  readonly grants: readonly LeaseDeed[];
  readonly parentId: string;
}

function checkGivenBack({ deeds, grants, parentId }: GivenBack, say: Say): void {
  for (const grant of grants) {
    const above = deeds.findIndex(
      (deed) => deed.type === 'released' && deed.task === parentId && deed.epoch === grant.under?.epoch,
    );
    const own = deeds.findIndex(
      (deed) => deed.type === 'released' && deed.task === grant.task && deed.epoch === grant.epoch,
    );
    if (above < 0 || above < deeds.indexOf(grant) || (own >= 0 && own < above)) continue;
    // What another owner has taken by then is not given back, and nobody gets it too early.
    const isTaken = ({ epoch }: LeaseDeed) => epoch > (grant.under?.epoch ?? 0);
    if (deeds.slice(0, above).some((deed) => deed.type === 'lease' && deed.task === parentId && isTaken(deed)))
      continue;
    say('a child turn is given back before its parent', `${grant.task} by ${grant.pid}`);
  }
}

/** What the tree used is what its model calls on this side used: nothing is missing, nothing counts twice. */
function checkUsage(remains: TreeRemains, turns: readonly TreeTurn[], say: Say): void {
  let expected = 0;
  for (const turn of turns.filter((each) => !isRemote(each))) {
    for (const record of recordsOf(remains, turn.taskId))
      if (record.type === 'llm.done') expected += record.usage?.totalTokens ?? 0;
  }
  try {
    const recorded = foldRecords(recordsOf(remains, remains.task.taskId)).usage.totalTokens;
    if (recorded !== expected)
      say('a tree used what its model calls used', `${recorded} is recorded, it is ${expected}`);
  } catch (error) {
    say('the journal folds', messageOf(error));
  }
  for (const told of new Set(remains.told)) {
    if (told !== expected) say('a tree used what its model calls used', `${told} is told, it is ${expected}`);
  }
}

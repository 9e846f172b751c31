import { InMemoryStateStore, type TaskSummary } from 'millrace';
import type { StoreCheck, TaskQuery } from 'millrace/types';
import { type BrokenStore, broken } from './broken-store.ts';

class OldestFirst extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).toReversed();
  }
}

class LastWrittenFirst extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).toSorted((a, b) => b.seq - a.seq);
  }
}

class IgnoresState extends InMemoryStateStore {
  override list({ state: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class IgnoresDue extends InMemoryStateStore {
  override list({ dueBy: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class LeavesOutWhatBacksOff extends InMemoryStateStore {
  override list({ dueBy = 0, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list({ ...query, dueBy });
  }
}

class NoDueTimes extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).map(({ dueAt: _, ...task }) => task);
  }
}

class IgnoresAgent extends InMemoryStateStore {
  override list({ agentId: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class LimitBeforeAgent extends InMemoryStateStore {
  override list({ agentId: agent, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query).filter(({ agentId }) => agent === undefined || agentId === agent);
  }
}

class IgnoresContext extends InMemoryStateStore {
  override list({ contextId: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class NoLimit extends InMemoryStateStore {
  override list(query: TaskQuery = {}): readonly TaskSummary[] {
    return super.list({ ...query, limit: 1e6 });
  }
}

class LimitBeforeFilter extends InMemoryStateStore {
  override list({ state, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list({ ...query, limit: 1 }).filter((task) => state === undefined || task.state === state);
  }
}

class NeverHeld extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).map((task) => ({ ...task, held: false }));
  }
}

class HeldForEver extends InMemoryStateStore {
  readonly #held = new Set<string>();

  override acquire(...args: Parameters<InMemoryStateStore['acquire']>) {
    this.#held.add(args[0]);
    return super.acquire(...args);
  }
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).map((task) => ({ ...task, held: this.#held.has(task.taskId) }));
  }
}

class StaysSubmitted extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).map((task) => ({ ...task, state: 'submitted' }));
  }
}

class ListsTheDeleted extends InMemoryStateStore {
  readonly #deleted: TaskSummary[] = [];

  override delete(taskId: string): void {
    this.#deleted.push(...super.list({ limit: 1e6 }).filter((task) => task.taskId === taskId));
    super.delete(taskId);
  }
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return [...this.#deleted, ...super.list(query)];
  }
}

class GroupsByCreation extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  }
}

class IgnoresPlace extends InMemoryStateStore {
  override list({ byStatus, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list({ ...query, ...(byStatus && { byStatus: { ...byStatus, after: undefined } }) });
  }
}

class OneTimeBackwards extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    const listed = super.list(query);
    return listed.every(({ statusAt }) => statusAt === listed[0]?.statusAt) ? listed.toReversed() : listed;
  }
}

class NoParents extends InMemoryStateStore {
  override list(query?: TaskQuery): readonly TaskSummary[] {
    return super.list(query).map(({ parentTaskId: _, ...task }) => task);
  }
}

class IgnoresRoots extends InMemoryStateStore {
  override list({ roots: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class IgnoresParent extends InMemoryStateStore {
  override list({ parentTaskId: _, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query);
  }
}

class LimitBeforeParent extends InMemoryStateStore {
  override list({ parentTaskId: parent, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query).filter(({ parentTaskId }) => parent === undefined || parentTaskId === parent);
  }
}

class LimitBeforeRoots extends InMemoryStateStore {
  override list({ roots = false, ...query }: TaskQuery = {}): readonly TaskSummary[] {
    return super.list(query).filter(({ parentTaskId }) => !roots || parentTaskId === undefined);
  }
}

/** Deletes one task and nothing else. */
class DeletesAlone extends InMemoryStateStore {
  override create(taskId: string, { parent: _, ...started }: Parameters<InMemoryStateStore['create']>[1]) {
    return super.create(taskId, started);
  }
}

/** Takes every turn that a record links to for a child turn. */
class DeletesTheLinked extends InMemoryStateStore {
  override delete(taskId: string): void {
    const linked = this.load(taskId) === null ? [] : super.read(taskId);
    super.delete(taskId);
    for (const record of linked) if (record.type === 'tool.intent' && record.child) this.delete(record.child.taskId);
  }
}

class DescribesTheHeldAsFree extends InMemoryStateStore {
  override describe(taskId: string): TaskSummary | null {
    const task = super.describe(taskId);
    return task && { ...task, held: false };
  }
}

class NotFit extends InMemoryStateStore {
  override check(): StoreCheck {
    return { ok: false, warnings: ['Set maxmemory-policy to noeviction.'] };
  }
}

const says = 'list says of a task what its journal says';
const filters = 'list filters by state and by context, and by both';
const due = 'F-14 runnable tasks that are due leave out turns that back off until later';
const ofAgent = 'list filters by agent, before it counts';
const held = 'held says whether a lease lasts: after acquire, not after release, not once it ran out';
const described = 'describe says of one task what its journal says, in every state, and null where there is none';
const grouped = 'list gives the tasks of a group, most recent status first, in pages after a position';
const atOneTime = 'tasks of a group with the same status time are sorted by id, descending, also over pages';
const newest = 'the task created last comes first, whatever was written since';

const ofParent = 'T-08 list gives the child turns of a turn, however many other tasks of its context are newer';
const takesChildren = 'a deleted task takes the child turns with it that its records link to, and theirs';
const leavesOthers = 'a deleted task leaves turns alone that its records link to but that are not its child turns';

export const brokenIndexes: readonly BrokenStore[] = [
  broken('no parents', 'T-08 list says of a child turn which turn is its parent', NoParents),
  broken(
    'child turns among the roots',
    'T-08 list of roots leaves child turns out, also of a state, a context and a group',
    IgnoresRoots,
  ),
  broken(
    'child turns take the places of roots',
    'T-08 a page of roots is full, however many child turns there are between them',
    LimitBeforeRoots,
  ),
  broken('tasks of other parents', ofParent, IgnoresParent),
  broken('other tasks take the places of child turns', ofParent, LimitBeforeParent),
  broken('child turns outlive a delete', takesChildren, DeletesAlone),
  broken('a delete takes whatever is linked', leavesOthers, DeletesTheLinked),
  broken('the oldest comes first', newest, OldestFirst),
  broken('the one written last comes first', newest, LastWrittenFirst),
  broken('the state does not filter', filters, IgnoresState),
  broken('the context does not filter', filters, IgnoresContext),
  broken('turns that back off are due', due, IgnoresDue),
  broken('turns that back off are never runnable', due, LeavesOutWhatBacksOff),
  broken('no time for turns that back off', 'F-14 list says until when a turn backs off', NoDueTimes),
  broken('the agent does not filter', ofAgent, IgnoresAgent),
  broken('tasks of other agents take places', ofAgent, LimitBeforeAgent),
  broken('no limit', 'list gives 50 unless told how many', NoLimit),
  broken('the limit comes before the filter', filters, LimitBeforeFilter),
  broken('a group in the order of creation', grouped, GroupsByCreation),
  broken('no places in a group', grouped, IgnoresPlace),
  broken('tasks of one time in the wrong order', atOneTime, OneTimeBackwards),
  broken('what is described is free', described, DescribesTheHeldAsFree),
  broken('nobody holds anything', held, NeverHeld),
  broken('a lease is held for ever', held, HeldForEver),
  broken('the state never changes', says, StaysSubmitted),
  broken('the deleted are listed', 'a deleted task is not listed', ListsTheDeleted),
  broken('not fit for use', 'check tells whether the store keeps its promise, in sentences', NotFit),
];

import { taskIdPattern, type Under } from '../core/contracts/index.ts';
import { olderParent } from './store-errors.ts';

/**
 * Whether a newer owner of the parent turn acquires a child turn, also while another owner holds it; where not, the lease of the child
 * decides. `before`: the `under` that the head has. Errors: `FENCED` for an older owner of the parent turn.
 */
export function takesAtOnce(taskId: string, before: Under | undefined, under: Under | undefined): boolean {
  if (!before || !under || before.taskId !== under.taskId) return false;
  if (under.epoch < before.epoch) throw olderParent(taskId, under, before.epoch);
  return under.epoch > before.epoch;
}

/** The task ids of the child turns that records link to, each once. Skips whatever is not a record: a damaged journal can be deleted. */
export function childrenIn(records: Iterable<unknown>): readonly string[] {
  const children = new Set<string>();
  for (const record of records) {
    if (typeof record !== 'object' || record === null || !('child' in record)) continue;
    const taskId = idIn(record.child);
    if (taskId !== undefined) children.add(taskId);
  }
  return [...children];
}

/** The task id of the parent turn, out of a journal that may be damaged. */
export function parentIn(records: readonly unknown[]): string | undefined {
  return idIn(memberOf(records[0], 'parent'));
}

function idIn(link: unknown): string | undefined {
  const taskId = memberOf(link, 'taskId');
  return typeof taskId === 'string' && taskIdPattern.test(taskId) ? taskId : undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

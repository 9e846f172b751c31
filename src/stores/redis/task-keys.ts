/** The keys of one task. They share a slot of a cluster by the hash tag; scripts derive those that are not named here. */
export interface TaskKeys {
  readonly head: string;
  readonly journal: string;
  readonly blobs: string;
  readonly deltas: string;
  readonly commands: string;
  readonly commandIds: string;
}

/** Task ids match `taskIdPattern`, so none of them breaks the hash tag. */
export function taskKeys(prefix: string, taskId: string): TaskKeys {
  const base = `${prefix}:{${taskId}}:`;
  return {
    head: `${base}h`,
    journal: `${base}j`,
    blobs: `${base}b`,
    deltas: `${base}d`,
    commands: `${base}c`,
    commandIds: `${base}i`,
  };
}

/** The head alone: most calls name no other. */
export function headKey(prefix: string, taskId: string): string {
  return `${prefix}:{${taskId}}:h`;
}

/** Of the index of runnable tasks, which is one for all tasks. */
export function runnableKey(prefix: string): string {
  return `${prefix}:due`;
}

/** All keys of the task that a head belongs to. */
export function keysBeside(head: string): readonly string[] {
  return [...'hjbdci'].map((letter) => head.slice(0, -1) + letter);
}

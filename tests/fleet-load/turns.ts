import type { Plan } from '../crash/workload/plan.ts';

/** A turn of the load, which its number determines. */
export interface LoadTurn {
  readonly taskId: string;
  /** What its user says: the model and the plan follow from it. */
  readonly seed: number;
  readonly tenant: 'large' | 'small';
}

/** All turns in the order in which they are submitted: of each eleven, ten of the large tenant, whose turns are all first. */
export function turnsOf(count: number, seed: number): readonly LoadTurn[] {
  const first = (seed % 1_000_000) * 1_000;
  const small = Math.max(1, Math.floor(count / 11));
  return Array.from({ length: count }, (_, index) => ({
    taskId: taskIdOf(first + index),
    seed: first + index,
    tenant: index < count - small ? 'large' : 'small',
  }));
}

export function taskIdOf(seed: number): string {
  return `turn-${seed}`;
}

export function seedOf(taskId: string): number {
  return Number(taskId.slice('turn-'.length));
}

/** With longer locks it would never end before its worker is killed. */
const longestMs = 5_000;

/** A turn with a tool that runs as long as the lock of its job lasts, which the job loses meanwhile: five of the first 203, and of each thousand. */
function isLong(seed: number, lockMs: number): boolean {
  return lockMs <= longestMs && seed % 1_000 <= 203 && seed % 50 === 3;
}

/** A turn that suspends until somebody approves a call: one of ten. */
export function asks(seed: number): boolean {
  return seed % 10 === 1;
}

/** Three iterations of two tools, one of which must not run twice. `lockMs`: of the workers. */
export function loadPlan(seed: number, lockMs: number): Plan {
  return [0, 1, 2].map((iteration) => {
    const isMiddle = iteration === 1;
    const second = asks(seed) && isMiddle ? 'sign' : iteration === 2 ? 'look' : 'put';
    const ms = isLong(seed, lockMs) && isMiddle ? lockMs : 10 + ((seed + iteration) % 5) * 10;
    return [
      { tool: isMiddle ? 'wire' : 'pay', arguments: JSON.stringify({ ms: 10 + ((seed + iteration) % 7) * 5 }) },
      { tool: second, arguments: JSON.stringify({ ms }) },
    ];
  });
}

/** Whether it is the tool of a long turn that takes so long. */
export function isLongCall(seed: number, callId: string, lockMs: number): boolean {
  return isLong(seed, lockMs) && callId === '2:1';
}

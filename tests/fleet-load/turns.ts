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

/** Three iterations of two tools, one of which must not run twice. */
export function loadPlan(seed: number): Plan {
  return [0, 1, 2].map((iteration) => [
    { tool: iteration === 1 ? 'wire' : 'pay', arguments: JSON.stringify({ ms: 10 + ((seed + iteration) % 7) * 5 }) },
    { tool: iteration === 2 ? 'look' : 'put', arguments: JSON.stringify({ ms: 10 + ((seed + iteration) % 5) * 10 }) },
  ]);
}

import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { listStatement } from 'millrace/internals';
import { PostgresStateStore } from 'millrace/postgres';
import type { TaskQuery } from 'millrace/types';
import { describePostgres } from './describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres-process.ts';
import { sql } from './sql.ts';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** The nodes that read a table or an index. */
function scansIn(node: PlanNode): readonly PlanNode[] {
  const below = (node.Plans ?? []).flatMap(scansIn);
  return node['Node Type'].includes('Scan') && !node['Node Type'].startsWith('Subquery') ? [node, ...below] : below;
}

describePostgres('the runnable tasks of PostgresStateStore', () => {
  const now = 1_700_000_000_000;
  let postgres: PostgresProcess;

  beforeAll(async () => {
    postgres = await startPostgres();
    const store = new PostgresStateStore({ postgres: postgres.url });
    await store.migrate();
    await store.close();
    const add = (count: number, state: string, dueAt: string) =>
      sql(
        postgres.url,
        `insert into millrace.task (task_id, context_id, agent_id, schema, state, ended, seq, bytes, created_at, updated_at, status_at, due_at)
         select gen_random_uuid(), 'c', 'a', 1, $2, $2 = 'completed', 1, 1, 1, 1, 1, ${dueAt} from generate_series(1, $1::int) n`,
        [count, state],
      );
    await add(3_000, 'completed', '0');
    await add(5, 'working', '0');
    await add(1_000, 'working', `${now} + n`);
    await add(3_000, 'completed', '0');
    await add(5, 'working', `${now} - n`);
    await add(4, 'failed', '0');
    await sql(postgres.url, 'analyze millrace.task');
  });
  afterAll(() => postgres.remove());

  /** The indexes that a query reads, the rows that they give, and those that are given in the end. */
  async function read(query: TaskQuery) {
    const { text, values } = listStatement(query);
    const [row] = await sql(
      postgres.url,
      `explain (analyze, format json) ${text.replaceAll('$S', 'millrace')}`,
      values,
    );
    const plans = row?.['QUERY PLAN'];
    if (!Array.isArray(plans)) throw new Error('PostgreSQL gave no plan.');
    const root: PlanNode = plans[0].Plan;
    const scans = scansIn(root);
    return {
      indexes: scans.flatMap((node) => node['Index Name'] ?? []).sort(),
      tables: scans.filter((node) => node['Node Type'] === 'Seq Scan').length,
      rows: scans.reduce((sum, node) => sum + node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0), 0),
      found: root['Actual Rows'],
    };
  }

  it('F-14 that are due are read from two indexes, and no row of a task that has ended or backs off until later', async () => {
    expect(await read({ runnable: true, dueBy: now })).toEqual({
      indexes: ['task_free', 'task_later'],
      tables: 0,
      rows: 10,
      found: 10,
    });
  });

  it('F-14 a list of one state reads the rows of that state', async () => {
    expect(await read({ state: 'failed' })).toEqual({ indexes: ['task_state'], tables: 0, rows: 4, found: 4 });
    // Of a common state the index of all tasks serves as well, from the newest on.
    const { rows, ...counts } = await read({ state: 'completed', limit: 20 });
    expect(counts).toMatchObject({ tables: 0, found: 20 });
    expect(rows).toBeLessThan(100);
  });
});

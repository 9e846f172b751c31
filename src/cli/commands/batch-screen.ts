import type { BatchProgress, BatchRow } from '../../batch/index.ts';
import { cut, LiveRegion } from '../columns.ts';
import { count, duration, oneLine } from '../format.ts';
import { note, type Terminal } from '../terminal.ts';

/** So many failures are listed as they come; all are in the results. */
const mostListed = 20;
const redrawMs = 100;
const plainMs = 10_000;
const barColumns = 20;

/** How a batch looks on stderr: a bar that is redrawn in place, or a line now and then. */
export class BatchScreen {
  readonly #terminal: Terminal;
  readonly #region: LiveRegion;
  readonly #startedAt = Date.now();
  #drawnAt = 0;
  #listed = 0;
  readonly #codes = new Map<string, number>();
  readonly #suspended: string[] = [];

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#region = new LiveRegion((text) => void terminal.stderr.write(text));
    this.#drawnAt = terminal.live ? 0 : this.#startedAt;
  }

  /** Tasks that wait for an answer, in the order in which they came. */
  get suspended(): readonly string[] {
    return this.#suspended;
  }

  show(progress: BatchProgress): void {
    const { live } = this.#terminal;
    const failure = progress.row && this.#failureOf(progress.row);
    const isDue = Date.now() - this.#drawnAt >= (live ? redrawMs : plainMs);
    if (!isDue && failure === undefined) return;
    if (isDue) this.#drawnAt = Date.now();
    const columns = this.#terminal.stderr.columns - 1;
    if (live)
      this.#region.draw([cut(this.#line(progress), columns)], failure === undefined ? [] : [cut(failure, columns)]);
    else if (failure !== undefined) void this.#terminal.stderr.write(`${failure}\n`);
    else note(this.#terminal, this.#numbers(progress).join(', '));
  }

  /** Takes the bar away. */
  close(): void {
    if (this.#terminal.live) this.#region.clear();
  }

  summarize(last: BatchProgress, out: string): void {
    const { completed, failed, suspended, earlier, usage, cost } = last;
    const parts = [
      `${completed.toLocaleString('en-US')} completed`,
      ...(failed > 0 ? [`${failed.toLocaleString('en-US')} failed${this.#causes()}`] : []),
      ...(suspended > 0 ? [`${suspended.toLocaleString('en-US')} waiting for an answer`] : []),
      ...(earlier > 0 ? [`${earlier.toLocaleString('en-US')} of them in earlier starts`] : []),
    ];
    const took = [count(usage.totalTokens, 'token'), ...costOf(cost), duration(Date.now() - this.#startedAt)];
    note(this.#terminal, `${parts.join(', ')}; ${took.join(', ')}; rows in ${out}`);
  }

  #causes(): string {
    const causes = [...this.#codes].map(([code, times]) => `${code} ${times.toLocaleString('en-US')}`);
    return causes.length === 0 ? '' : ` (${causes.join(', ')})`;
  }

  #failureOf(row: BatchRow): string | undefined {
    if (row.status === 'suspended') this.#suspended.push(row.taskId);
    if (row.status !== 'failed' && row.status !== 'canceled') return undefined;
    const { code, message } = row.error;
    this.#codes.set(code, (this.#codes.get(code) ?? 0) + 1);
    this.#listed += 1;
    const { errorStyle: style } = this.#terminal;
    if (this.#listed > mostListed + 1) return undefined;
    if (this.#listed > mostListed) return style.dim('more failures are in the results');
    return `${style.red(style.glyphs.failed)} ${oneLine(row.key)}: ${code} ${oneLine(message)}`;
  }

  #line(progress: BatchProgress): string {
    const { errorStyle: style } = this.#terminal;
    return [this.#bar(progress), ...this.#numbers(progress)].join(style.unicode ? ' · ' : ', ');
  }

  #bar({ total, completed, failed, suspended }: BatchProgress): string {
    const done = completed + failed + suspended;
    const part = total === undefined || total === 0 ? 0 : Math.min(1, done / total);
    const [full, empty] = this.#terminal.errorStyle.unicode ? ['█', '░'] : ['#', '-'];
    const filled = Math.round(part * barColumns);
    return `${full?.repeat(filled)}${empty?.repeat(barColumns - filled)} ${Math.floor(part * 100)} %`;
  }

  #numbers({ total, completed, failed, suspended, running, waiting, perSecond, cost, etaMs }: BatchProgress): string[] {
    const of = total === undefined ? '' : ` of ${total.toLocaleString('en-US')}`;
    return [
      `${(completed + failed + suspended).toLocaleString('en-US')}${of} done`,
      ...(failed > 0 ? [`${failed.toLocaleString('en-US')} failed`] : []),
      `${running} running`,
      `${waiting.toLocaleString('en-US')} waiting`,
      `${perSecond.toFixed(1)}/s`,
      ...costOf(cost),
      ...(etaMs === undefined ? [] : [`${duration(etaMs)} left`]),
    ];
  }
}

function costOf(cost: number | undefined): readonly string[] {
  return cost === undefined || cost === 0 ? [] : [`$${cost.toFixed(cost < 1 ? 4 : 2)}`];
}

export interface Curve {
  readonly figure: 'cpu' | 'sent' | 'stored';
  readonly store: string;
  /** After each step, from 0 on. */
  readonly sums: readonly number[];
}

const panels = { cpu: 'CPU, seconds', sent: 'Sent to the server, MiB', stored: 'Stored, MiB' } as const;
const colors: Readonly<Record<string, string>> = {
  memory: '#8a8f94',
  LMDB: '#b7791f',
  Redis: '#c0392b',
  PostgreSQL: '#2f6f9f',
};

const title = 'CPU time, bytes sent and bytes stored over the turns of one conversation, by store';
const [width, height, gap, top] = [250, 170, 46, 34];

/** One panel for each figure, with a line for each store: over the turns of a conversation. */
export function drawCurves(
  curves: readonly Curve[],
  { turns, step }: { readonly turns: number; readonly step: number },
) {
  const names = Object.keys(panels) as (keyof typeof panels)[];
  const drawn = names.map((name, index) => {
    const own = curves.filter(({ figure }) => figure === name);
    const most = niceAbove(Math.max(...own.flatMap(({ sums }) => sums)));
    const x = (turn: number) => (turn / turns) * width;
    const y = (sum: number) => height - (sum / most) * height;
    const lines = own.map(({ store, sums }) => {
      const points = sums.map((sum, at) => `${x(at * step).toFixed(1)},${y(Math.max(sum, 0)).toFixed(1)}`).join(' ');
      return `<polyline points="${points}" fill="none" stroke="${colors[store]}" stroke-width="2"/>`;
    });
    const left = gap + index * (width + gap);
    return [
      `<g transform="translate(${left} ${top})">`,
      `<text y="-12" class="title">${panels[name]}</text>`,
      `<path d="M0 0V${height}H${width}" fill="none" class="axis"/>`,
      `<text x="-6" y="5" text-anchor="end">${most}</text><text x="-6" y="${height}" text-anchor="end">0</text>`,
      `<text x="${width}" y="${height + 18}" text-anchor="end">${turns.toLocaleString('en')} turns</text>`,
      ...lines,
      '</g>',
    ].join('\n');
  });
  const legend = Object.entries(colors).map(([store, color], index) => {
    const left = gap + index * 110;
    return `<g transform="translate(${left} ${top + height + 42})"><rect width="14" height="3" y="-5" fill="${color}"/><text x="20">${store}</text></g>`;
  });
  const size = `${names.length * (width + gap) + gap} ${top + height + 54}`;
  const style =
    'text{font:12px system-ui,sans-serif;fill:#57606a}.title{font-weight:600}.axis{stroke:#8a8f94}@media(prefers-color-scheme:dark){text{fill:#adb5bd}}';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size}"><title>${title}</title><style>${style}</style>\n${[...drawn, ...legend].join('\n')}\n</svg>\n`;
}

function niceAbove(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5, 10].find((each) => each * unit >= value) ?? 10;
  return Number((factor * unit).toPrecision(2));
}

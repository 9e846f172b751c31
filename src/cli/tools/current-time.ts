import { AgentLoopError, type Clock, systemClock } from '../../core/contracts/index.ts';
import { closestNames } from '../../providers/models/model-registry.ts';
import { type Tool, tool } from '../../tools/tool.ts';

const parameters = {
  type: 'object',
  properties: {
    zone: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description:
        'An IANA time zone such as "Europe/Paris", or the city that one is named after. Default: the zone of this computer.',
    },
  },
  additionalProperties: false,
} as const;

/** A tool that tells date and time in a time zone, named as IANA does or by the city of the zone. */
export function currentTimeTool(clock: Clock = systemClock): Tool<{ readonly zone?: string }> {
  return tool({
    name: 'current_time',
    description: 'Tells the date, the weekday and the time in a time zone.',
    parameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute: ({ zone }) => timeIn(zone === undefined ? localZone() : zoneOf(zone), new Date(clock.now())),
  });
}

interface ZonedTime {
  readonly zone: string;
  readonly weekday: string;
  /** ISO 8601 with the zone's offset. */
  readonly time: string;
  readonly utc: string;
}

function timeIn(zone: string, now: Date): ZonedTime {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    weekday: 'long',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'longOffset',
  });
  const parts = new Map(format.formatToParts(now).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  const date = `${part('year')}-${part('month')}-${part('day')}`;
  const time = `${part('hour')}:${part('minute')}:${part('second')}`;
  const offset = part('timeZoneName').replace('GMT', '') || '+00:00';
  return { zone, weekday: part('weekday'), time: `${date}T${time}${offset}`, utc: now.toISOString() };
}

function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The list of zones has one name for each; the regions are tried too, as a zone may go by an older or newer city name. */
function zoneOf(wanted: string): string {
  const name = wanted.trim().replaceAll(' ', '_');
  const zones = Intl.supportedValuesOf('timeZone');
  const same = (text: string) => text.toLowerCase() === name.toLowerCase();
  const listed = zones.find(same);
  if (listed !== undefined) return listed;
  const cities = zones.filter((zone) => same(cityOf(zone)));
  if (cities.length > 1) throw unknown(wanted, cities);
  const [city] = cities;
  if (city !== undefined) return city;
  const regions = new Set(zones.filter((zone) => zone.includes('/')).map((zone) => zone.split('/', 1).join('')));
  const candidates = name.includes('/') ? [name] : [name, ...[...regions].map((region) => `${region}/${name}`)];
  const known = candidates.find(isZone);
  if (known !== undefined) return known;
  throw unknown(wanted, closestZones(name, zones));
}

function closestZones(name: string, zones: readonly string[]): readonly string[] {
  const byCity = new Map(zones.map((zone) => [cityOf(zone), zone]));
  const cities = closestNames(cityOf(name), [...byCity.keys()]).flatMap((city) => byCity.get(city) ?? []);
  return cities.length > 0 ? cities : closestNames(name, zones);
}

function cityOf(zone: string): string {
  return zone.slice(zone.lastIndexOf('/') + 1);
}

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

function unknown(wanted: string, close: readonly string[]): AgentLoopError {
  const hint =
    close.length === 0 ? 'give an IANA name such as "America/New_York"' : `did you mean ${close.join(' or ')}?`;
  return new AgentLoopError('TOOL_FAILED', `The time zone ${JSON.stringify(wanted)} is not known; ${hint}`);
}

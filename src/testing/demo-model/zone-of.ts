/** Big places that no zone is named after, by the zone that they are in. */
const others: Readonly<Record<string, string>> = {
  UTC: 'utc|gmt|greenwich',
  'America/Los_Angeles': 'san francisco|seattle|san diego|portland|las vegas|san jose|california|la|pst|pacific time',
  'America/New_York': 'boston|washington|miami|atlanta|philadelphia|nyc|est|eastern time',
  'America/Chicago': 'houston|dallas|austin|minneapolis|new orleans|central time',
  'America/Toronto': 'ottawa|montreal|quebec',
  'America/Sao_Paulo': 'rio de janeiro|brasilia|rio',
  'America/Argentina/Buenos_Aires': 'argentina',
  'Africa/Johannesburg': 'cape town|durban|south africa',
  'Africa/Cairo': 'egypt',
  'Africa/Nairobi': 'kenya',
  'Asia/Dubai': 'abu dhabi|emirates',
  'Asia/Kolkata': 'india|mumbai|delhi|new delhi|bangalore|bengaluru|chennai|hyderabad|kolkata',
  'Asia/Shanghai': 'beijing|shenzhen|guangzhou|china',
  'Asia/Tokyo': 'japan|kyoto|osaka|nagoya',
  'Asia/Seoul': 'korea|south korea|busan',
  'Asia/Ho_Chi_Minh': 'hanoi|ho chi minh city|vietnam',
  'Asia/Jerusalem': 'tel aviv|israel',
  'Asia/Jakarta': 'bali',
  'Australia/Sydney': 'canberra',
  'Pacific/Auckland': 'wellington|new zealand',
  'Europe/London': 'england|uk|britain|great britain|united kingdom|manchester|edinburgh|scotland|wales',
  'Europe/Paris': 'france|lyon|marseille|nice|toulouse',
  'Europe/Berlin': 'germany|munich|hamburg|frankfurt|cologne|stuttgart|dresden|leipzig|cet',
  'Europe/Madrid': 'spain|barcelona|valencia|seville',
  'Europe/Rome': 'italy|milan|naples|turin|florence|venice',
  'Europe/Zurich': 'switzerland|geneva|basel|bern',
  'Europe/Vienna': 'austria|salzburg|graz',
  'Europe/Amsterdam': 'netherlands|the netherlands|rotterdam|the hague|utrecht',
  'Europe/Brussels': 'belgium|antwerp',
  'Europe/Lisbon': 'portugal|porto',
  'Europe/Stockholm': 'sweden|gothenburg',
  'Europe/Oslo': 'norway|bergen',
  'Europe/Copenhagen': 'denmark',
  'Europe/Helsinki': 'finland',
  'Europe/Warsaw': 'poland|krakow',
  'Europe/Prague': 'czechia',
  'Europe/Dublin': 'ireland',
  'Europe/Athens': 'greece',
  'Europe/Kyiv': 'ukraine|kiev',
};

let known: ReadonlyMap<string, string> | undefined;

/** The IANA time zone of a place: a zone's own name, the city in it, or one of a list of big places and countries. */
export function zoneOf(place: string): string | undefined {
  known ??= zonesByPlace();
  return known.get(plain(place)) ?? known.get(plain(place.split(',')[0] ?? ''));
}

function zonesByPlace(): ReadonlyMap<string, string> {
  const zones = new Map<string, string>();
  for (const zone of Intl.supportedValuesOf('timeZone')) {
    zones.set(plain(zone), zone);
    zones.set(plain(zone.split('/').at(-1) ?? zone), zone);
  }
  for (const [zone, places] of Object.entries(others)) {
    zones.set(plain(zone), zone);
    for (const place of places.split('|')) zones.set(place, zone);
  }
  return zones;
}

function plain(place: string): string {
  const letters = place.normalize('NFD').replace(/\p{M}/gu, '');
  return letters
    .replaceAll('_', ' ')
    .replace(/[.?!]+$/, '')
    .trim()
    .toLowerCase();
}

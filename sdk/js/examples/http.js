// A request with a secret. Capabilities: http:api.example.com and credential:example.
import { defineSkill, Failure, http, s } from "patchbay-sdk";

export const skill = defineSkill({
  weather: {
    description: "Returns the weather in a city.",
    input: s.object({ city: s.string("Name of the city.") }),
    run({ city }) {
      const url = new URL("https://api.example.com/v1/weather");
      url.searchParams.set("q", city);
      // The host adds the secret after "Bearer "; this code never sees it.
      const response = http.get(url, { auth: http.bearer("example"), timeoutMs: 5000 });
      if (response.status === 404) throw new Failure("not-found", `the service knows no city '${city}'`);
      if (!response.ok) throw new Failure("unavailable", `the service returned ${response.status}: ${response.text().slice(0, 200)}`);
      const { summary, celsius } = response.json();
      return `${city}: ${summary}, ${celsius} °C`;
    },
  },
});

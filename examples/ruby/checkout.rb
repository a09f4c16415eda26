# SPDX-License-Identifier: Apache-2.0
# A service that prices orders. By itself it sends what stackprof (gem install stackprof; Debian: ruby-stackprof) sees, as folded stacks:
#
#     WICK_URL=http://localhost:4040 ruby checkout.rb
require "net/http"
require "stackprof"

WICK = ENV["WICK_URL"]
EVERY = (ENV["WICK_EVERY"] || 10).to_f
MICROSECONDS = 10_000

def price_item(count)
  total = 0
  count.times { |i| total = (total * 31 + i) % 1_000_003 }
  total
end

def encode_order(items)
  items.join(",")
end

def handle_order(number)
  encode_order(Array.new(20) { price_item(2000 + number % 7) })
end

def serve_orders
  number = 0
  loop do
    handle_order(number)
    number += 1
    sleep 0.005
  end
end

# raw: depth, that many frames, count; and so on.
def folded(profile)
  raw = profile[:raw] || []
  out = +""
  until raw.empty?
    depth = raw.shift
    names = raw.shift(depth).map { |id| profile[:frames][id][:name].tr(";\n", "  ") }
    out << names.join(";") << " #{raw.shift}\n"
  end
  out
end

def profile_and_send
  loop do
    from = Time.now.to_i
    StackProf.start(mode: :cpu, interval: MICROSECONDS, raw: true)
    sleep EVERY
    StackProf.stop
    more = "format=folded&units=samples&sampleRate=#{1_000_000 / MICROSECONDS}&from=#{from}&until=#{Time.now.to_i}"
    answer = Net::HTTP.post(URI("#{WICK}/ingest?name=checkout-ruby&#{more}"), folded(StackProf.results))
    warn "not sent: #{answer.body}" unless answer.code == "200"
  rescue SystemCallError => e
    warn "not sent: #{e}"
  end
end

Thread.new { profile_and_send } if WICK
serve_orders

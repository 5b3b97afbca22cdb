mod sizing;
